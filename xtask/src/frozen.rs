//! What is written of a version of the WIT stays: every file of `wit/` is held to the hash that `wit/versions.lock` has of
//! it, and the hashes to the commits that added them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use semver::Version;
use sha2::{Digest, Sha256};

use crate::{root, step};

/// Lines as `sha256sum` writes them: a hash, two spaces, and `VERSION/FILE`. The draft's lines carry its number, so that
/// each number has stood for one text.
const LOCK: &str = "versions.lock";
const DRAFT: &str = "draft";
const PACKAGE: &str = "package keyvector:plugin@";

pub(crate) fn run() -> Result<()> {
    let wit = root().join("wit");
    let mut problems = problems(&wit)?;
    match first_lines(&wit) {
        Ok(first) => problems.extend(rewritten(&listed(&wit)?, &first)),
        Err(reason) => eprintln!("wit/{LOCK} is not compared with git's history: {reason:#}"),
    }
    if !problems.is_empty() {
        bail!("versions of the WIT do not change (wit/README.md):\n  {}", problems.join("\n  "));
    }
    Ok(())
}

/// Hashes by `VERSION/FILE`.
type Lines = BTreeMap<String, String>;

fn listed(wit: &Path) -> Result<Lines> {
    let path = wit.join(LOCK);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = Lines::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((file, hash)) = parse(line) else { bail!("wit/{LOCK}: not `HASH  VERSION/FILE`: {line}") };
        if lines.insert(file.clone(), hash).is_some() {
            bail!("wit/{LOCK} lists {file} twice");
        }
    }
    Ok(lines)
}

fn parse(line: &str) -> Option<(String, String)> {
    let (hash, file) = line.split_once("  ")?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && file.contains('/')).then(|| (file.to_owned(), hash.to_owned()))
}

fn version_of(file: &str) -> &str {
    file.split('/').next().unwrap_or_default()
}

/// What the folders hold that they may not, and what they lack.
fn problems(wit: &Path) -> Result<Vec<String>> {
    let listed = listed(wit)?;
    let mut problems = Vec::new();
    let mut found = Lines::new();
    let mut draft = None;
    let mut folders: Vec<_> = fs::read_dir(wit)?.collect::<Result<_, _>>()?;
    folders.sort_by_key(fs::DirEntry::file_name);
    for folder in folders {
        if !folder.file_type()?.is_dir() {
            continue;
        }
        let name = folder.file_name().to_string_lossy().into_owned();
        let files = files(&folder.path(), "")?;
        let numbers = package_numbers(&files);
        let [number] = numbers.as_slice() else {
            problems.push(format!("wit/{name} says {} times `{PACKAGE}NUMBER;`: say it once", numbers.len()));
            continue;
        };
        let version = Version::parse(number).ok();
        let fits = |version: &Version| match name.as_str() {
            DRAFT => is_draft(version),
            _ => *number == name && version.pre.is_empty(),
        };
        if !version.as_ref().is_some_and(fits) {
            problems.push(match name.as_str() {
                DRAFT => format!("wit/draft says it is {number}, which is no X.Y.Z-draft.N"),
                _ => format!("wit/{name} says it is {number}: a release X.Y.Z lies in wit/X.Y.Z"),
            });
            continue;
        }
        if name == DRAFT {
            draft = version;
        }
        for (file, bytes) in files {
            let (path, key) = (format!("wit/{name}/{file}"), format!("{number}/{file}"));
            let hash = format!("{:x}", Sha256::digest(&bytes));
            problems.extend(changed(&path, &key, &hash, &listed));
            found.insert(key, hash);
        }
    }
    let mut highest = draft.clone();
    for key in listed.keys().chain(found.keys()) {
        let version = Version::parse(version_of(key)).with_context(|| format!("wit/{LOCK}: {key}"))?;
        if !found.contains_key(key) && version.pre.is_empty() {
            problems.push(format!("wit/{key} is missing: restore it, hosts bind {version} for ever"));
        }
        if !found.contains_key(key) && draft.as_ref() == Some(&version) {
            problems.push(format!("wit/draft lacks a file of {version}, {key}: {}", raise(&version)));
        }
        highest = highest.max(Some(version));
    }
    if let (Some(draft), Some(highest)) = (&draft, &highest)
        && draft < highest
    {
        problems.push(format!(
            "wit/draft is {draft}, below {highest}: its number only rises, and a draft that was released is removed"
        ));
    }
    Ok(problems)
}

/// One file against its line.
fn changed(path: &str, key: &str, hash: &str, listed: &Lines) -> Option<String> {
    let version = version_of(key);
    let add = format!("add to wit/{LOCK} the line\n    {hash}  {key}");
    let is_draft = path.starts_with("wit/draft/");
    let remedy = match Version::parse(version) {
        Ok(version) if is_draft => format!("{}, and list it anew", raise(&version)),
        _ => format!("{version} is released, so restore it; what is new is a new version"),
    };
    match listed.get(key) {
        Some(line) if line == hash => None,
        Some(_) => Some(format!("{path} has changed since {version} was listed: {remedy}")),
        None if listed.keys().any(|other| version_of(other) == version) => {
            Some(format!("{path} was added after {version} was listed: {remedy}"))
        }
        None => Some(format!("{path} is not listed: {add}")),
    }
}

fn raise(draft: &Version) -> String {
    let number: u64 = draft.pre.strip_prefix("draft.").and_then(|number| number.parse().ok()).unwrap_or(0);
    format!("raise its number to {}.{}.{}-draft.{}", draft.major, draft.minor, draft.patch, number + 1)
}

fn is_draft(version: &Version) -> bool {
    version.pre.strip_prefix("draft.").is_some_and(|number| number.parse::<u64>().is_ok())
}

/// All files below a folder, with their bytes, by their path in it.
fn files(folder: &Path, below: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            files.extend(self::files(&entry.path(), &format!("{name}/"))?);
        } else {
            let bytes =
                fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            files.push((name, bytes));
        }
    }
    files.sort();
    Ok(files)
}

fn package_numbers(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let lines = files.iter().flat_map(|(_, bytes)| bytes.split(|&byte| byte == b'\n'));
    let texts = lines.filter_map(|line| std::str::from_utf8(line).ok());
    texts
        .filter_map(|line| line.trim_end().strip_prefix(PACKAGE)?.strip_suffix(';').map(str::to_owned))
        .collect()
}

/// Each line as git's history first had it, with the commit.
///
/// # Errors
/// Says why there is no history to compare with.
fn first_lines(wit: &Path) -> Result<BTreeMap<String, (String, String)>> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(wit).args(arguments);
        step::output(git)
    };
    if step::find_program("git").is_none() {
        bail!("git is not installed");
    }
    let Ok(is_shallow) = git(&["rev-parse", "--is-shallow-repository"]) else {
        bail!("this is no git repository");
    };
    if is_shallow != "false" {
        bail!("this clone is shallow (`git fetch --unshallow` gets the rest)");
    }
    let mut first = BTreeMap::new();
    let commits = git(&["log", "--reverse", "--topo-order", "--full-history", "--format=%h", "--", LOCK])?;
    for commit in commits.lines() {
        // A commit that took the file away has none.
        let text = git(&["show", &format!("{commit}:./{LOCK}")]).unwrap_or_default();
        for (file, hash) in text.lines().filter_map(parse) {
            first.entry(file).or_insert((hash, commit.to_owned()));
        }
    }
    Ok(first)
}

/// Lines that are not what they once were.
fn rewritten(listed: &Lines, first: &BTreeMap<String, (String, String)>) -> Vec<String> {
    let problem = |(file, (hash, commit)): (&String, &(String, String))| match listed.get(file) {
        Some(line) if line == hash => None,
        Some(_) => Some(format!(
            "wit/{LOCK} has another hash of {file} than commit {commit}, which listed it: restore the line and the file"
        )),
        None => Some(format!("wit/{LOCK} lacks {file}, which commit {commit} listed: restore the line")),
    };
    first.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::TempDir;

    use super::*;

    fn write(wit: &Path, file: &str, text: &str) {
        let path = wit.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn wit_text(number: &str, rest: &str) -> String {
        format!("/// A comment.\npackage keyvector:plugin@{number};\n{rest}")
    }

    fn line(key: &str, text: &str) -> String {
        format!("{:x}  {key}\n", Sha256::digest(text))
    }

    /// A release, two drafts after it of which the second is there, and a lock that fits.
    fn sound() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (released, draft) = (wit_text("0.1.0", ""), wit_text("0.2.0-draft.2", "interface new {}\n"));
        write(folder.path(), "README.md", "words");
        write(folder.path(), "0.1.0/keyvector.wit", &released);
        write(folder.path(), "0.1.0/more/types.wit", "interface more {}\n");
        write(folder.path(), "draft/keyvector.wit", &draft);
        let lock = [
            "# hashes\n\n".to_owned(),
            line("0.1.0/keyvector.wit", &released),
            line("0.1.0/more/types.wit", "interface more {}\n"),
            line("0.2.0-draft.1/keyvector.wit", "as it was"),
            line("0.2.0-draft.2/keyvector.wit", &draft),
        ];
        write(folder.path(), LOCK, &lock.concat());
        folder
    }

    /// Does something to a sound folder, and checks the one problem that comes of it.
    #[track_caller]
    fn one_problem(change: impl FnOnce(&Path), parts: &[&str]) {
        let folder = sound();
        change(folder.path());
        let problems = problems(folder.path()).unwrap();
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        for part in parts {
            assert!(problem.contains(part), "{problem}");
        }
    }

    fn lock_without(wit: &Path, key: &str) {
        let text = fs::read_to_string(wit.join(LOCK)).unwrap();
        let kept: String =
            text.lines().filter(|line| !line.ends_with(key)).map(|line| format!("{line}\n")).collect();
        fs::write(wit.join(LOCK), kept).unwrap();
    }

    #[test]
    fn what_is_as_listed_passes() {
        assert_eq!(problems(sound().path()).unwrap(), [""; 0]);
    }

    #[test]
    fn the_projects_own_wit_passes() {
        assert_eq!(problems(&root().join("wit")).unwrap(), [""; 0]);
    }

    #[test]
    fn a_released_file_that_changed_is_named() {
        one_problem(
            |wit| write(wit, "0.1.0/more/types.wit", "interface more { }\n"),
            &["wit/0.1.0/more/types.wit has changed since 0.1.0 was listed", "restore it"],
        );
    }

    #[test]
    fn a_released_file_that_is_gone_is_named() {
        one_problem(
            |wit| fs::remove_file(wit.join("0.1.0/more/types.wit")).unwrap(),
            &["wit/0.1.0/more/types.wit is missing: restore it"],
        );
        let folder = sound();
        fs::remove_dir_all(folder.path().join("0.1.0")).unwrap();
        assert_eq!(problems(folder.path()).unwrap().len(), 2, "both of its files");
    }

    #[test]
    fn a_file_that_was_added_to_a_release_is_named() {
        one_problem(
            |wit| write(wit, "0.1.0/late.wit", "interface late {}\n"),
            &["wit/0.1.0/late.wit was added after 0.1.0 was listed", "restore it"],
        );
    }

    #[test]
    fn a_release_that_is_not_listed_is_named_with_its_line() {
        let text = wit_text("0.1.1", "");
        one_problem(
            |wit| write(wit, "0.1.1/keyvector.wit", &text),
            &["wit/0.1.1/keyvector.wit is not listed", line("0.1.1/keyvector.wit", &text).trim()],
        );
    }

    #[test]
    fn a_folder_has_the_name_of_its_version() {
        for (file, number, part) in [
            ("0.1.1/keyvector.wit", "0.1.2", "wit/0.1.1 says it is 0.1.2"),
            ("0.3.0-draft.1/keyvector.wit", "0.3.0-draft.1", "a release X.Y.Z lies in wit/X.Y.Z"),
            ("old/keyvector.wit", "0.0.1", "wit/old says it is 0.0.1"),
            ("draft/keyvector.wit", "0.2.0", "no X.Y.Z-draft.N"),
        ] {
            let folder = sound();
            write(folder.path(), file, &wit_text(number, ""));
            let problems = problems(folder.path()).unwrap();
            assert!(problems[0].contains(part), "{problems:?}");
        }
        one_problem(|wit| write(wit, "0.1.1/a.wit", "interface a {}"), &["wit/0.1.1 says 0 times"]);
    }

    #[test]
    fn a_draft_that_changed_raises_its_number() {
        let changed = wit_text("0.2.0-draft.2", "/// Only a comment.\ninterface new {}\n");
        one_problem(
            |wit| write(wit, "draft/keyvector.wit", &changed),
            &[
                "wit/draft/keyvector.wit has changed since 0.2.0-draft.2 was listed",
                "raise its number to 0.2.0-draft.3",
            ],
        );
        one_problem(
            |wit| write(wit, "draft/late.wit", "interface late {}\n"),
            &["wit/draft/late.wit was added after 0.2.0-draft.2", "raise its number to 0.2.0-draft.3"],
        );
        one_problem(
            |wit| {
                let text = fs::read_to_string(wit.join(LOCK)).unwrap() + &line("0.2.0-draft.2/gone.wit", "x");
                fs::write(wit.join(LOCK), text).unwrap();
            },
            &[
                "wit/draft lacks a file of 0.2.0-draft.2, 0.2.0-draft.2/gone.wit",
                "raise its number to 0.2.0-draft.3",
            ],
        );
    }

    #[test]
    fn a_raised_draft_is_listed() {
        let raised = wit_text("0.2.0-draft.3", "");
        one_problem(
            |wit| write(wit, "draft/keyvector.wit", &raised),
            &["wit/draft/keyvector.wit is not listed", line("0.2.0-draft.3/keyvector.wit", &raised).trim()],
        );
    }

    #[test]
    fn a_drafts_number_only_rises() {
        let problems_of = |number: &str, key: &str| {
            let folder = sound();
            let text = wit_text(number, "");
            write(folder.path(), "draft/keyvector.wit", &text);
            lock_without(folder.path(), key);
            let lock = fs::read_to_string(folder.path().join(LOCK)).unwrap();
            let lock = lock + &line(&format!("{number}/keyvector.wit"), &text);
            fs::write(folder.path().join(LOCK), lock).unwrap();
            problems(folder.path()).unwrap()
        };
        assert_eq!(
            problems_of("0.2.0-draft.1", "0.2.0-draft.1/keyvector.wit"),
            [
                "wit/draft is 0.2.0-draft.1, below 0.2.0-draft.2: its number only rises, and a draft that was released \
                 is removed"
            ]
        );
        // A release lies above its own drafts.
        for key in ["0.2.0-draft.1/keyvector.wit", "0.2.0-draft.2/keyvector.wit"] {
            assert!(problems_of("0.1.0-draft.7", key)[0].starts_with("wit/draft is 0.1.0-draft.7, below 0."));
        }
        assert_eq!(problems_of("0.2.0-draft.10", "none"), [""; 0]);
    }

    #[test]
    fn a_project_between_drafts_needs_none() {
        let folder = sound();
        fs::remove_dir_all(folder.path().join("draft")).unwrap();
        assert_eq!(problems(folder.path()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_lock_that_cannot_be_read_is_no_lock() {
        let error = |text: &str| {
            let folder = sound();
            let mut lock = fs::OpenOptions::new().append(true).open(folder.path().join(LOCK)).unwrap();
            lock.write_all(text.as_bytes()).unwrap();
            problems(folder.path()).unwrap_err().to_string()
        };
        assert!(error("abc  0.1.0/x.wit\n").contains("not `HASH  VERSION/FILE`"));
        assert!(error(&line("0.1.0/keyvector.wit", "other")).contains("lists 0.1.0/keyvector.wit twice"));
        assert!(error(&line("new/keyvector.wit", "x")).contains("new/keyvector.wit"));
        let folder = sound();
        fs::remove_file(folder.path().join(LOCK)).unwrap();
        assert!(problems(folder.path()).unwrap_err().to_string().contains("cannot read"));
    }

    fn git(folder: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(folder)
            .args(["-c", "user.name=tests", "-c", "user.email=tests@example.org"])
            .args(arguments);
        step::output(git).unwrap();
    }

    fn commit(folder: &Path) {
        git(folder, &["add", "--all"]);
        git(folder, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
    }

    fn history_problems(wit: &Path) -> Vec<String> {
        rewritten(&listed(wit).unwrap(), &first_lines(wit).unwrap())
    }

    /// A committed repository with the WIT in a folder, as in the project. None where git is missing, which is noted.
    fn committed() -> Option<TempDir> {
        if step::find_program("git").is_none() {
            if let Some(skipped) = std::env::var_os("KEYVECTOR_SKIPPED") {
                let mut skipped = fs::OpenOptions::new().append(true).create(true).open(skipped).unwrap();
                writeln!(skipped, "frozen WIT against git's history\tapt-get install git").unwrap();
            }
            return None;
        }
        let repository = tempfile::tempdir().unwrap();
        fs::rename(sound().path(), repository.path().join("wit")).unwrap();
        git(repository.path(), &["init", "--quiet"]);
        commit(repository.path());
        Some(repository)
    }

    #[test]
    fn file_and_line_that_changed_together_are_found_in_the_history() {
        let Some(repository) = committed() else { return };
        let wit = repository.path().join("wit");
        assert_eq!(history_problems(&wit), [""; 0]);

        let text = wit_text("0.1.0", "interface sneaked-in {}\n");
        write(&wit, "0.1.0/keyvector.wit", &text);
        lock_without(&wit, "0.1.0/keyvector.wit");
        let lock = fs::read_to_string(wit.join(LOCK)).unwrap() + &line("0.1.0/keyvector.wit", &text);
        fs::write(wit.join(LOCK), lock).unwrap();
        for round in ["not committed", "committed"] {
            assert_eq!(problems(&wit).unwrap(), [""; 0], "by themselves they agree");
            let found = history_problems(&wit);
            assert!(
                found.len() == 1 && found[0].contains("another hash of 0.1.0/keyvector.wit"),
                "{round}: {found:?}"
            );
            commit(repository.path());
        }
    }

    #[test]
    fn a_line_that_is_gone_is_found_in_the_history() {
        let Some(repository) = committed() else { return };
        let wit = repository.path().join("wit");
        lock_without(&wit, "0.2.0-draft.1/keyvector.wit");
        lock_without(&wit, "0.1.0/keyvector.wit");
        lock_without(&wit, "0.1.0/more/types.wit");
        fs::remove_dir_all(wit.join("0.1.0")).unwrap();
        assert_eq!(problems(&wit).unwrap(), [""; 0], "by themselves they agree");
        let found = history_problems(&wit);
        assert!(found.len() == 3 && found[0].contains("lacks 0.1.0/keyvector.wit"), "{found:?}");

        // Nor does taking the whole file away and writing it anew make it forgotten.
        let kept = fs::read(wit.join(LOCK)).unwrap();
        fs::remove_file(wit.join(LOCK)).unwrap();
        commit(repository.path());
        fs::write(wit.join(LOCK), kept).unwrap();
        commit(repository.path());
        assert_eq!(history_problems(&wit).len(), 3);
    }

    #[test]
    fn lines_that_were_added_are_no_problem() {
        let Some(repository) = committed() else { return };
        let wit = repository.path().join("wit");
        let raised = wit_text("0.2.0-draft.3", "");
        write(&wit, "draft/keyvector.wit", &raised);
        let lock =
            fs::read_to_string(wit.join(LOCK)).unwrap() + &line("0.2.0-draft.3/keyvector.wit", &raised);
        fs::write(wit.join(LOCK), lock).unwrap();
        commit(repository.path());
        assert_eq!((problems(&wit).unwrap(), history_problems(&wit)), (vec![], vec![]));
    }

    #[test]
    fn without_the_whole_history_it_says_so() {
        let reason = |wit: &Path| first_lines(wit).unwrap_err().to_string();
        let Some(repository) = committed() else { return };
        commit(repository.path());
        let shallow = tempfile::tempdir().unwrap();
        let origin = format!("file://{}", repository.path().display());
        git(shallow.path(), &["clone", "--quiet", "--depth", "1", &origin, "clone"]);
        assert!(reason(&shallow.path().join("clone/wit")).contains("shallow"));
        assert!(reason(sound().path()).contains("no git repository"));
    }
}
