//! The workspace as the chores see it: its folder, its packages and its files.
//!
//! It owns reading; it judges nothing. Packages come from `cargo metadata`, so that nobody here has to
//! understand a manifest. Files come from walking the folder, so that a file that was forgotten in a
//! commit is seen too; build folders and hidden tool folders are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::source::Source;

/// Everything that a check may look at.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) files: Vec<File>,
    /// Every crate that `Cargo.lock` names, the members too.
    pub(crate) outside: Vec<Outside>,
}

/// A crate, as its manifest says.
pub(crate) struct Outside {
    pub(crate) name: String,
    pub(crate) licence: String,
    /// Nothing for a member.
    pub(crate) source: Option<String>,
    /// The crates that it names, under their own names.
    pub(crate) names: Vec<String>,
}

/// A member of the workspace.
#[derive(Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) roots: Vec<Root>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) has_features: bool,
}

/// A file that the compiler is pointed at: the root of a crate.
pub(crate) struct Root {
    /// What cargo calls it: `lib`, `bin`, `test`, `example`, `bench`, `custom-build`.
    pub(crate) kind: String,
    pub(crate) path: String,
}

/// One line of a manifest's dependencies.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `normal`, `dev` or `build`.
    pub(crate) kind: String,
    pub(crate) is_member: bool,
}

/// A file of the tree.
pub(crate) struct File {
    /// From the root of the workspace, with forward slashes.
    pub(crate) path: String,
    /// Empty if the file is no UTF-8.
    pub(crate) text: String,
    /// Present for `.rs` files.
    pub(crate) source: Option<Source>,
}

impl Workspace {
    /// Reads the workspace in `root`.
    pub(crate) fn read(root: &Path) -> Result<Workspace, String> {
        Ok(Workspace { packages: packages(root)?, files: files(root)?, outside: outside(root)? })
    }

    /// The Rust files with what was read in them.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A workspace of the given files, for the tests of the checks.
    #[cfg(test)]
    pub(crate) fn made_up(files: &[(&str, &str)]) -> Workspace {
        let files = files.iter().map(|(path, text)| File::new((*path).to_owned(), (*text).to_owned()));
        Workspace { files: files.collect(), ..Workspace::default() }
    }
}

impl File {
    pub(crate) fn new(path: String, text: String) -> File {
        let source = path.ends_with(".rs").then(|| Source::read(&text));
        File { path, text, source }
    }
}

/// The files in `root`, by their paths.
pub(crate) fn files(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The root of the workspace: the folder above the one that cargo says this package is in.
pub(crate) fn root() -> Result<PathBuf, String> {
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("run this as `cargo xtask`, which tells it where the workspace is")?;
    let here = PathBuf::from(here);
    let root = here.parent().ok_or("the workspace has no folder")?;
    Ok(root.to_owned())
}

/// The cargo that runs this chore, so that the toolchain is the same.
pub(crate) fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Where cargo builds.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let root = root()?;
    Ok(env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set)))
}

/// The members, from `cargo metadata`.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let metadata = metadata(root, &["--no-deps"])?;
    let mut packages: Vec<Package> =
        list(&metadata["packages"]).map(|package| read_package(root, package)).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

/// Every crate that some build of some member uses, on whatever machine. `cargo metadata` knows where a crate
/// comes from, and names more than any build uses; `cargo tree` knows which those are.
fn outside(root: &Path) -> Result<Vec<Outside>, String> {
    let metadata = metadata(root, &["--all-features", "--locked"])?;
    let words = "tree --locked --workspace --all-features --target all --prefix none --format {p}";
    let tree = said(Command::new(cargo()).args(words.split(' ')).current_dir(root))?;
    let used: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, version)| (name, version.split(' ').next().unwrap_or_default()))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).map(|node| (string(&node["id"]), &node["deps"])).collect();
    let names = |id: &str| {
        let named = nodes.get(id).into_iter().flat_map(|deps| list(deps));
        named.map(|dep| string(&dep["name"]).replace('_', "-")).collect()
    };
    let read = |package: &Value| Outside {
        name: string(&package["name"]).to_owned(),
        licence: string(&package["license"]).to_owned(),
        source: package["source"].as_str().map(str::to_owned),
        names: names(string(&package["id"])),
    };
    let is_used = |package: &&Value| used.contains(&(string(&package["name"]), string(&package["version"])));
    Ok(list(&metadata["packages"]).filter(is_used).map(read).collect())
}

/// What the compiler says when it is asked this.
pub(crate) fn rustc(words: &[&str]) -> Result<String, String> {
    said(Command::new("rustc").args(words).current_dir(root()?))
}

/// What a program wrote to standard output.
fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} could not be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed:\n{}", said.trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn metadata(root: &Path, words: &[&str]) -> Result<Value, String> {
    let metadata = ["metadata", "--format-version", "1"];
    let output = said(Command::new(cargo()).args(metadata).args(words).current_dir(root))?;
    serde_json::from_str(&output)
        .map_err(|error| format!("cargo metadata printed something else than JSON: {error}"))
}

fn read_package(root: &Path, package: &Value) -> Package {
    let targets = list(&package["targets"]).flat_map(|target| {
        let path = relative(root, Path::new(string(&target["src_path"])));
        list(&target["kind"]).map(move |kind| Root { kind: string(kind).to_owned(), path: path.clone() })
    });
    let dependencies = list(&package["dependencies"]).map(|dependency| Dependency {
        name: string(&dependency["name"]).to_owned(),
        kind: dependency["kind"].as_str().unwrap_or("normal").to_owned(),
        is_member: dependency["path"].is_string(),
    });
    Package {
        name: string(&package["name"]).to_owned(),
        roots: targets.collect(),
        dependencies: dependencies.collect(),
        has_features: package["features"].as_object().is_some_and(|features| !features.is_empty()),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<(), String> {
    let problem = |error| format!("{} could not be read: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(problem)? {
        let entry = entry.map_err(problem)?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().map_err(problem)?.is_dir() {
            // Build folders say so with a tag; `.git` and an editor's folders are no part of the tree.
            let is_ours = !name.starts_with('.') || matches!(name.as_str(), ".cargo" | ".ci" | ".github");
            if is_ours
                && !path.join("CACHEDIR.TAG").exists()
                && !(folder == root && name.starts_with("target"))
            {
                walk(root, &path, files)?;
            }
        } else if name != ".git" {
            // In a second work tree `.git` is a file. A picture has no text, but a link may lead to it.
            let text = String::from_utf8(fs::read(&path).map_err(problem)?).unwrap_or_default();
            files.push(File::new(relative(root, &path), text));
        }
    }
    Ok(())
}
