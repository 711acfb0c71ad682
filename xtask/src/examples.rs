//! Example plugins in other languages than Rust, `plugins/examples/*`, to `plugins/dist`.
//!
//! Their compilers are packages of the languages' own registries, in the versions that `sdk/` pins, and are installed
//! under `target/tools`: nothing outside this folder changes. A language whose own tools are missing is left out, and said
//! to be. A component is built again only when something that goes into it has changed, since that takes up to a minute.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::plugins::copy_if_changed;
use crate::{root, step};

const WIT: &str = "wit/draft";
const WORLD: &str = "table-plugin";
const WIT_BINDGEN: &str = "0.63.0";

#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Build these only
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the built plugins go [default: plugins/dist]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// What a plugin is written in, told by its main file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    JavaScript,
    C,
}

impl Language {
    const ALL: [Self; 3] = [Self::Python, Self::JavaScript, Self::C];

    fn of(folder: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|language| folder.join(language.main_file()).is_file())
    }

    fn main_file(self) -> &'static str {
        match self {
            Self::Python => "plugin.py",
            Self::JavaScript => "plugin.js",
            Self::C => "plugin.c",
        }
    }

    /// Raised when the recipe below changes, so that what the older one built is built again.
    fn recipe(self) -> u32 {
        match self {
            Self::Python | Self::JavaScript => 1,
            Self::C => 2,
        }
    }

    fn sdk(self) -> PathBuf {
        root().join(match self {
            Self::Python => "sdk/python",
            Self::JavaScript => "sdk/javascript",
            Self::C => "sdk/c",
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "js",
            Self::C => "c",
        }
    }

    /// What to install, where something is missing.
    fn missing(self) -> Option<&'static str> {
        let (is_there, remedy) = match self {
            Self::Python => (has_venv(), "python3 with venv (Debian: apt-get install python3-venv)"),
            Self::JavaScript => (
                step::find_program("npm").is_some(),
                "Node.js 20 or newer with npm (Debian: apt-get install nodejs npm)",
            ),
            Self::C => {
                (has_venv(), "python3 with venv, by which zig comes (Debian: apt-get install python3-venv)")
            }
        };
        (!is_there).then_some(remedy)
    }
}

/// Debian's python3 alone has half of it: without ensurepip no environment gets a pip.
fn has_venv() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import venv, ensurepip"]);
    python.output().is_ok_and(|done| done.status.success())
}

/// Builds what is out of date and copies what has changed.
pub(crate) fn build(options: &Options) -> Result<()> {
    let into = options.into.clone().unwrap_or_else(|| root().join("plugins/dist"));
    fs::create_dir_all(&into).with_context(|| format!("cannot make the folder {}", into.display()))?;
    let examples = examples()?;
    let known = |name: &String| examples.iter().any(|(known, ..)| known == name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = examples.iter().map(|(name, ..)| name.as_str()).collect();
        bail!("there is no example `{unknown}`; there are: {}", names.join(", "));
    }
    let chosen = |name: &String| options.only.is_empty() || options.only.contains(name);
    // The languages share nothing, and much of each one's work keeps one core busy: side by side.
    std::thread::scope(|scope| {
        let builds = Language::ALL.map(|language| {
            let mut examples = examples.iter().filter(move |(name, of, _)| *of == language && chosen(name));
            let into = &into;
            scope.spawn(move || {
                examples.try_for_each(|(name, _, folder)| build_one(name, language, folder, into))
            })
        });
        // All of them are waited for, and the first failure is told.
        let built = builds.map(|build| build.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        built.into_iter().collect()
    })
}

/// The guests of the benchmark in languages other than Rust.
pub(crate) fn build_bench_guests() -> Result<()> {
    let into = root().join("plugins/dist");
    for language in Language::ALL {
        for shape in ["light", "eight"] {
            let name = format!("{shape}-{}", language.name());
            let folder = root().join("tests/benches/guests").join(&name);
            build_one(&format!("cost-{name}"), language, &folder, &into)?;
        }
    }
    Ok(())
}

fn build_one(name: &str, language: Language, folder: &Path, into: &Path) -> Result<()> {
    if let Some(remedy) = language.missing() {
        eprintln!("skipped: {name} (to build it, install {remedy})");
        return Ok(());
    }
    let started = Instant::now();
    let component = root().join("target/examples").join(format!("{name}.wasm"));
    let built = component_up_to_date(language, folder, &component)?;
    copy_if_changed(&component, &into.join(format!("{name}.wasm")))?;
    let how =
        if built { format!("{:.1} s", started.elapsed().as_secs_f64()) } else { "up to date".to_owned() };
    eprintln!("plugins: {name} in {} ({how})", into.display());
    Ok(())
}

/// Name, language and folder of each: those of `plugins/examples` and `tests/guests-other`.
fn examples() -> Result<Vec<(String, Language, PathBuf)>> {
    let mut examples = Vec::new();
    for folder in ["plugins/examples", "tests/guests-other"] {
        let folder = root().join(folder);
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            if let Some(language) = Language::of(&entry.path()) {
                examples.push((entry.file_name().to_string_lossy().into_owned(), language, entry.path()));
            }
        }
    }
    examples.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(examples)
}

/// Builds the table plugin in `folder` to `component`, unless what is there came from the same files. Says whether it did.
pub(crate) fn component_up_to_date(language: Language, folder: &Path, component: &Path) -> Result<bool> {
    let mut inputs = DefaultHasher::new();
    language.recipe().hash(&mut inputs);
    for input in [folder, &language.sdk(), &root().join(WIT)] {
        hash_files(input, &mut inputs)?;
    }
    let inputs = format!("{:016x}", inputs.finish());
    let stamp = component.with_extension("stamp");
    if component.is_file() && fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == inputs) {
        return Ok(false);
    }
    // What is stopped halfway through is built again.
    remove_if_there(&stamp)?;
    let parent = component.parent().context("a component lies in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make the folder {}", parent.display()))?;
    match language {
        Language::Python => python(folder, component)?,
        Language::JavaScript => java_script(folder, component)?,
        Language::C => c(folder, component)?,
    }
    fs::write(&stamp, inputs).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(true)
}

/// Names and contents of all files, in the order of their names.
fn hash_files(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<_> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            // What running the tests leaves behind.
            if name != "__pycache__" && name != "node_modules" {
                hash_files(&path, hasher)?;
            }
        } else {
            name.hash(hasher);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?.hash(hasher);
        }
    }
    Ok(())
}

fn python(folder: &Path, component: &Path) -> Result<()> {
    let tools = python_packages("python", &Language::Python.sdk().join("requirements.txt"))?;
    let mut build = Command::new(tools.join("bin/componentize-py"));
    build.current_dir(root()).env("VIRTUAL_ENV", &tools);
    build.args(["--quiet", "--wit-path", WIT, "--world", WORLD, "componentize", "plugin"]);
    build.arg("--python-path").arg(folder).arg("--python-path").arg(Language::Python.sdk());
    build.arg("--output").arg(component);
    step::run(build)
}

fn java_script(folder: &Path, component: &Path) -> Result<()> {
    let tools = node_packages()?;
    let mut build = Command::new("node");
    // Imports by relative paths are found below the folder that this runs in.
    build.current_dir(root());
    build.arg(tools.join("node_modules/@bytecodealliance/componentize-js/src/cli.js"));
    build.arg(folder.join("plugin.js")).args(["--wit", WIT, "--world-name", WORLD]);
    // A plugin gets none of these, and without them the component imports no WASI.
    build.args(["--disable", "stdio", "random", "clocks", "http", "fetch-event"]).arg("--out").arg(component);
    step::run(build)
}

fn c(folder: &Path, component: &Path) -> Result<()> {
    let zig = python_packages("zig", &Language::C.sdk().join("requirements.txt"))?;
    let bindings = component.with_extension("bindings");
    let mut bindgen = Command::new(wit_bindgen()?);
    bindgen.current_dir(root()).args(["c", WIT, "--world", WORLD, "--out-dir"]).arg(&bindings);
    step::run(bindgen)?;
    let sdk = Language::C.sdk();
    let mut build = Command::new(zig.join("bin/python"));
    build.current_dir(root()).env("ZIG_GLOBAL_CACHE_DIR", root().join("target/tools/zig-cache"));
    build.args([
        "-m",
        "ziglang",
        "cc",
        "-target",
        "wasm32-wasi",
        "-mexec-model=reactor",
        "-O2",
        "-s",
        "-std=c11",
    ]);
    // Zig would give the stack 16 MiB, which each instance would take.
    build.args(["-Wl,-z,stack-size=1048576", "-Wall", "-Wextra", "-I"]).arg(&bindings).arg("-I").arg(&sdk);
    for source in [folder.join("plugin.c"), sdk.join("keyvector.c"), sdk.join("settings.c")] {
        build.arg(source);
    }
    for generated in ["table_plugin.c", "table_plugin_component_type.o"] {
        build.arg(bindings.join(generated));
    }
    build.arg("-o").arg(component);
    step::run(build)
}

/// A virtual environment with these packages in it.
fn python_packages(name: &str, requirements: &Path) -> Result<PathBuf> {
    let tools = root().join("target/tools").join(name);
    if is_installed(&tools, &[requirements]) {
        return Ok(tools);
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&tools);
    step::run(venv).context("python3 has no venv (Debian: apt-get install python3-venv)")?;
    let mut install = Command::new(tools.join("bin/python"));
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements);
    step::run(install)?;
    installed(&tools, &[requirements])
}

/// A folder with the packages of `package-lock.json`.
fn node_packages() -> Result<PathBuf> {
    let tools = root().join("target/tools/javascript");
    let lists = ["package.json", "package-lock.json"].map(|name| Language::JavaScript.sdk().join(name));
    let lists = [lists[0].as_path(), lists[1].as_path()];
    if is_installed(&tools, &lists) {
        return Ok(tools);
    }
    fs::create_dir_all(&tools).with_context(|| format!("cannot make the folder {}", tools.display()))?;
    remove_if_there(&tools.join("installed"))?;
    for list in lists {
        let copy = tools.join(list.file_name().unwrap_or_default());
        fs::copy(list, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    let mut install = Command::new("npm");
    install.current_dir(&tools).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    step::run(install)?;
    installed(&tools, &lists)
}

/// The generator of C bindings. What is on the search path may be of another version.
fn wit_bindgen() -> Result<PathBuf> {
    let tools = root().join("target/tools/wit-bindgen").join(WIT_BINDGEN);
    let program = tools.join("bin/wit-bindgen");
    if !program.is_file() {
        let mut install = step::cargo(&root());
        install
            .args(["install", "wit-bindgen-cli", "--version", WIT_BINDGEN, "--locked", "--root"])
            .arg(&tools);
        // It runs for milliseconds: compiled fast rather than fast when run.
        install
            .args(["--debug", "--no-default-features", "--features", "c"])
            .env("CARGO_PROFILE_DEV_DEBUG", "none");
        step::run(install)?;
    }
    Ok(program)
}

/// Whether the tools were installed from these lists.
fn is_installed(tools: &Path, lists: &[&Path]) -> bool {
    fs::read_to_string(tools.join("installed")).is_ok_and(|installed| installed == contents(lists))
}

fn installed(tools: &Path, lists: &[&Path]) -> Result<PathBuf> {
    let stamp = tools.join("installed");
    fs::write(&stamp, contents(lists)).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(tools.to_owned())
}

fn remove_if_there(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn contents(lists: &[&Path]) -> String {
    lists.iter().map(|list| fs::read_to_string(list).unwrap_or_default()).collect()
}
