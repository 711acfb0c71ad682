//! The built binary as a user meets it: exit codes, messages, and what each verb prints.

mod host;

use host::{Host, film, films, needs_plugins};

#[test]
fn help_names_every_verb_and_exit_code() {
    let help = Host::new().run(&["--help"]).ok();
    for verb in ["demo", "init", "check", "preview", "query", "dlq", "index", "keys", "plugin", "resume"] {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is not in\n{help}");
    }
    for code in ["   0  ", "   1  ", "   2  ", "   3  ", "  64  ", "  69  ", "  75  "] {
        assert!(help.contains(&format!("\n{code}")), "{code} is not in\n{help}");
    }
    for verb in ["demo", "init", "query", "dlq replay"] {
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        assert!(Host::new().run(&words).ok().contains("keyvector-host "), "{verb} has no example");
    }
}

#[test]
fn wrong_usage_exits_2() {
    for arguments in
        [&["--nonsense"][..], &["query"], &["query", "x", "--top", "0"], &["--strict"], &["dlq", "drop"]]
    {
        let done = Host::new().run(arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {}", done.stderr);
    }
    let typo = Host::new().run(&["quer", "x"]);
    assert!(typo.code == 2 && typo.stderr.contains("query"), "{}", typo.stderr);
}

#[test]
fn wrong_configuration_exits_64_with_line_and_nearest_name() {
    let host = Host::new();
    host.write("keyvector.toml", "[[table]]\nplugin = \"columns\"\nbacth = 3\n");
    let done = host.run(&[]);
    assert_eq!(done.code, 64);
    assert_eq!(
        done.stderr,
        "error: keyvector.toml line 3: unknown key \"bacth\" in [[table]]: did you mean \"batch\"?\n"
    );
    assert!(done.stdout.is_empty());

    // From the environment and from flags, too.
    let done = Host::new().env("KEYVECTOR_BATCH", "0").run(&["--plugin", "movies", "--source", "x.jsonl"]);
    assert_eq!(
        (done.code, done.stderr.as_str()),
        (64, "error: --batch: batch is a whole number from 1 to 10000, not 0\n")
    );
    let done = Host::new().run(&["--plugin", "movies", "--set", "host.failovr=2s"]);
    assert_eq!(done.code, 64);
    assert!(done.stderr.contains("did you mean \"failover\"?"), "{}", done.stderr);
    let done = Host::new().run(&["--config", "none.toml"]);
    assert_eq!(done.code, 64, "{}", done.stderr);
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    needs_plugins();
    let text = format!(
        "[[table]]\nplugin = \"movies\"\nrevision = 2\n[table.source]\nfile = {:?}\n",
        films("films.jsonl")
    );
    let revision = |host: Host, flags: &[&str]| {
        host.write("keyvector.toml", &text);
        let checked = host.run(&[&["check", "--offline"][..], flags].concat()).ok();
        let line = checked.lines().find(|line| line.contains("revision")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    let environment = || Host::new().env("KEYVECTOR_REVISION", "3");
    assert_eq!(revision(Host::new(), &[]), "2");
    assert_eq!(revision(environment(), &[]), "3");
    assert_eq!(revision(environment(), &["--revision", "4"]), "4");
    assert_eq!(revision(environment(), &["--set", "table.revision=5"]), "5");
}

#[test]
fn with_nothing_to_work_on_it_says_what_helps() {
    for arguments in [&[][..], &["query", "x"], &["dlq", "list"], &["preview"]] {
        let done = Host::new().run(arguments);
        assert_eq!(done.code, 64, "{arguments:?}");
        assert!(
            done.stderr.contains("keyvector-host demo") && done.stderr.contains("keyvector-host init"),
            "{}",
            done.stderr
        );
        assert!(done.stderr.lines().count() <= 2, "{}", done.stderr);
    }
}

#[test]
fn a_plugin_that_is_nowhere_is_refused_with_what_there_is() {
    needs_plugins();
    let done = Host::new().run(&["--plugin", "nonsense.wasm", "--source", films("films.jsonl")]);
    assert_eq!(done.code, 64);
    assert_eq!(
        done.stderr,
        "error: no plugin \"nonsense.wasm\": there is no file nonsense.wasm, and the shipped ones are columns, movies, \
         static\n"
    );
    let other = Host::new().run(&["--plugin", "columns"]);
    assert_eq!(other.code, 64);
    assert_eq!(
        other.stderr,
        "error: --plugin: columns has nothing to follow: name a source (--source FILE, or file in [table.source])\n"
    );
    let pin = format!("movies@sha256:{}", "0".repeat(64));
    let pinned = Host::new().run(&["--plugin", &pin]);
    assert_eq!(pinned.code, 64);
    assert!(pinned.stderr.contains("is not the pinned plugin: its digest is sha256:"), "{}", pinned.stderr);
    // A file of that name that is not the shipped plugin does not get the shipped table.
    let host = Host::new();
    host.write("movies.wasm", "(not it)");
    let foreign = host.run(&["--plugin", "movies.wasm"]);
    assert_eq!(foreign.code, 64);
    assert!(foreign.stderr.contains("is not the shipped movies plugin"), "{}", foreign.stderr);
}

#[test]
fn what_cannot_be_reached_exits_69() {
    needs_plugins();
    let missing = Host::new().run(&["--plugin", "movies", "--source", "none.jsonl"]);
    assert_eq!(missing.code, 69, "{}", missing.stderr);
    assert!(missing.stderr.starts_with("error: there is no file none.jsonl to follow"), "{}", missing.stderr);
    let no_store = Host::new().run(&["query", "x", "--plugin", "movies"]);
    assert_eq!(no_store.code, 69, "{}", no_store.stderr);
    let nowhere =
        Host::new().run(&["--plugin", "movies", "--store", "no/such/folder/x.db", "--until-drained"]);
    assert_eq!(nowhere.code, 69, "{}", nowhere.stderr);
    let host = Host::new();
    host.write(
        "keyvector.db",
        "this is no SQLite file, but some notes of mine, long enough to have a header",
    );
    let foreign = host.run(&["--plugin", "movies", "--until-drained"]);
    assert_eq!(foreign.code, 69, "{}", foreign.stderr);
}

#[test]
fn a_table_whose_plugin_fails_row_after_row_halts_with_75_until_resumed() {
    needs_plugins();
    let host = Host::new();
    // All rows are such that the plugin refuses them: it is the plugin that is wrong for the table.
    let lines: String = (1..=20).map(|id| format!("{}\n", film(id, "-1"))).collect();
    host.write("films.jsonl", &lines);
    let schema = films("table.cql");
    let follow = ["--plugin", "movies", "--source", "films.jsonl", "--schema", schema, "--until-drained"];
    let follow = [&follow[..], &["--poison-run-max", "10"]].concat();
    let halted = host.run(&follow);
    assert_eq!(halted.code, 75, "{}", halted.stderr);
    assert!(halted.stderr.contains("resume"), "{}", halted.stderr);
    let again = host.run(&follow);
    assert_eq!(again.code, 75, "a halt lasts: {}", again.stderr);
    let check = host.run(&["check"]);
    assert_eq!(check.code, 75, "{}{}", check.stdout, check.stderr);
    assert_eq!(host.run(&["dlq", "list", "--exit-code"]).code, 0, "nothing was dead-lettered");
    host.run(&["resume"]).ok();
    host.run(&["check"]).ok();
}

#[test]
fn letters_left_exit_3() {
    needs_plugins();
    let host = Host::new();
    let strict = host.run(&["--plugin", "movies", "--until-drained", "--strict"]);
    assert_eq!(strict.code, 3, "{}", strict.stderr);
    assert!(strict.stderr.contains("2 dead letters are left"), "{}", strict.stderr);
    let listed = host.run(&["dlq", "list", "--exit-code"]);
    assert_eq!(listed.code, 3, "{}", listed.stderr);
    assert_eq!(listed.stdout.lines().count(), 3, "a header and two letters:\n{}", listed.stdout);
}

#[test]
fn another_plugin_or_configuration_under_the_same_revision_is_refused() {
    needs_plugins();
    let host = Host::new();
    host.run(&["--plugin", "movies", "--until-drained"]).ok();
    let other = ["--plugin", "columns", "--source", "keyvector-films/films.jsonl", "--until-drained"];
    let other = [&other[..], &["--set", "table.plugin_config.text={title}"]].concat();
    // No revision helps where the index is for other metadata.
    let unfit = host.run(&other);
    assert_eq!(unfit.code, 64, "{}", unfit.stderr);
    assert!(unfit.stderr.contains("non-filterable keys"), "{}", unfit.stderr);
    let metadata = r#"table.plugin_config.metadata=[{column="title",filterable=false}]"#;
    let refused = host.run(&[&other[..], &["--set", metadata]].concat());
    assert_eq!(refused.code, 64, "{}", refused.stderr);
    assert!(refused.stderr.contains("under revision 1"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("revision = 2") && refused.stderr.contains("restore"),
        "{}",
        refused.stderr
    );
}

#[test]
fn logs_are_json_lines_where_there_is_no_terminal() {
    needs_plugins();
    let done = Host::new().run(&["--plugin", "movies", "--until-drained", "-v", "--log-format", "json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let lines: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with('{')).collect();
    for line in &lines {
        let line: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    assert!(!done.stderr.contains("movie_id="), "no row key is in the log:\n{}", done.stderr);
    let filter = Host::new().run(&["--log", "=,=", "dlq", "list"]);
    assert_eq!(filter.code, 64, "{}", filter.stderr);
}

#[test]
fn records_under_another_schema_exit_64() {
    needs_plugins();
    let host = Host::new();
    host.write("other.cql", "CREATE TABLE k.other (id uuid PRIMARY KEY, title text);");
    let done = host.run(&[
        "--plugin",
        "columns",
        "--set",
        "table.plugin_config.text={title}",
        "--source",
        films("films.jsonl"),
        "--schema",
        "other.cql",
        "--until-drained",
    ]);
    assert_eq!(done.code, 64, "{}", done.stderr);
    assert!(done.stderr.contains("--schema"), "{}", done.stderr);
    assert_eq!(host.run(&["dlq", "list", "--exit-code"]).code, 0, "nothing was dead-lettered");
}
