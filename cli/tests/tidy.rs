use std::fs;
use std::path::Path;
use std::process::Command;

/// Maximum characters of a line of code, except lines with strings, which rustfmt does not break.
const LINE_MAX: usize = 140;

const FILE_MAX: usize = 550;

/// Words forbidden in names, because they do not describe the content of a value.
const WORDS: [&str; 8] = ["told", "untold", "said", "unsaid", "asked", "heard", "seen", "news"];

const TEST_MAX: usize = 60;

/// Words that must not begin a doc comment: they refer to the line before.
const RELATIVES: [&str; 26] = [
    "What",
    "Who",
    "Whom",
    "Whose",
    "Where",
    "Whether",
    "Which",
    "Of",
    "By",
    "So",
    "It",
    "Its",
    "They",
    "Them",
    "That",
    "Those",
    "These",
    "There",
    "The same",
    "And",
    "Or",
    "But",
    "As",
    "Until",
    "How",
    "Otherwise",
];

const SENTENCE_MAX: usize = 35;

/// Files that are not in the repository; no text may refer to them.
const ABSENT_FILES: [&str; 8] =
    ["design.md", "papers/", "cases.md", "wire.md", "afxdp.md", "style.md", "ofc.txt", "capfc.txt"];

const WORKPLACES: [&str; 4] = ["home", "root", "Users", "work"];

const LATER: [&str; 3] = ["todo", "fixme", "xxx"];

struct File {
    name: String,
    text: String,
}

impl File {
    fn is_code(&self) -> bool {
        [".rs", ".py", ".sh", ".c", ".lua"].iter().any(|end| self.name.ends_with(end))
    }

    fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        self.text.lines().enumerate().map(|(n, line)| (format!("{}:{}", self.name, n + 1), line))
    }
}

fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("the directory cannot be read").flatten();
            open.extend(entries.map(|entry| entry.path()).filter(|path| is_ours(path)));
        } else if !name.ends_with("tests/tidy.rs")
            && let Ok(text) = fs::read_to_string(&path)
        {
            files.push(File { name, text });
        }
    }
    assert!(files.len() > 200, "{} files found", files.len());
    files
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let made = ["target", ".git", "corpus", "plots", "Cargo.lock", "artifacts"];
    !(made.contains(&name.as_ref()) || name.ends_with(".svg") || path.is_symlink())
}

fn holds(found: &[String], what_to_do: &str) {
    assert!(found.is_empty(), "{what_to_do}:\n  {}", found.join("\n  "));
}

#[test]
fn code_lines_are_within_length_limit() {
    let files = files();
    let code = files.iter().filter(|file| file.is_code()).flat_map(File::lines);
    let long = code.filter(|(_, line)| line.chars().count() > LINE_MAX && !line.contains(['"', '\'']));
    let found: Vec<String> = long.map(|(place, _)| place).collect();
    holds(&found, &format!("break lines of more than {LINE_MAX} characters"));
}

#[test]
fn files_are_within_length_limit() {
    let files = files();
    let is_long = |file: &&File| file.is_code() && file.text.lines().count() > FILE_MAX;
    let found: Vec<String> = files.iter().filter(is_long).map(|file| file.name.clone()).collect();
    holds(&found, &format!("split files of more than {FILE_MAX} lines, or move their tests to a file"));
}

#[test]
fn function_names_do_not_begin_with_number_of_test_case() {
    let files = files();
    let rust = files.iter().filter(|file| file.name.ends_with(".rs")).flat_map(File::lines);
    let numbered = rust.filter(|(_, line)| line.split_once("fn ").is_some_and(|(_, name)| is_numbered(name)));
    let found: Vec<String> = numbered.map(|(place, line)| format!("{place}: {}", line.trim())).collect();
    holds(&found, "remove the number of a case from the name of the function");
}

fn is_numbered(name: &str) -> bool {
    let rest = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    name.len() == rest.len() + 1 && after.len() < rest.len() && after.starts_with('_')
}

#[test]
fn names_in_code_contain_no_forbidden_words() {
    let files = files();
    let rust = files.iter().filter(|file| file.name.ends_with(".rs")).flat_map(File::lines);
    let found: Vec<String> = rust
        .flat_map(|(place, line)| names(line).map(move |name| (place.clone(), name)).collect::<Vec<_>>())
        .filter(|(_, name)| parts(name).iter().any(|part| WORDS.contains(&part.as_str())))
        .map(|(place, name)| format!("{place}: {name}"))
        .collect();
    holds(&found, "name these things by their content");
}

fn parts(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            spaced.push('_');
        }
        spaced.push(c.to_ascii_lowercase());
    }
    spaced.split('_').map(str::to_owned).collect()
}

#[test]
fn test_names_are_short() {
    let files = files();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.name.ends_with(".rs")) {
        let mut is_test = false;
        for (place, line) in file.lines() {
            let line = line.trim();
            if let Some((_, name)) = line.split_once("fn ") {
                let name = name.split('(').next().unwrap_or_default();
                if is_test && name.len() > TEST_MAX {
                    found.push(format!("{place}: {name}"));
                }
            }
            is_test = line == "#[test]" || is_test && line.starts_with("#[");
        }
    }
    holds(&found, &format!("shorten names of tests to {TEST_MAX} characters: subject, condition, outcome"));
}

#[test]
fn docs_begin_with_a_verb_or_noun() {
    let files = files();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.name.ends_with(".rs")) {
        let mut is_first = true;
        for (place, line) in file.lines() {
            let doc = line.trim().strip_prefix("/// ");
            let begins = |doc: &str| RELATIVES.iter().any(|word| doc.starts_with(&format!("{word} ")));
            if is_first && doc.is_some_and(begins) {
                found.push(format!("{place}: {}", line.trim()));
            }
            is_first = !line.trim().starts_with("///");
        }
    }
    holds(&found, "begin a doc with a verb (functions) or a noun, so that it is understood alone");
}

#[test]
fn sentences_of_documents_are_short() {
    let files = files();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.name.ends_with(".md")) {
        let mut is_code = false;
        let mut sentence = 0;
        for (place, line) in file.lines() {
            is_code ^= line.starts_with("```");
            if is_code || line.starts_with("    ") || line.starts_with(['|', '#', '`']) || line.is_empty() {
                sentence = 0;
                continue;
            }
            if line.trim_start().starts_with("* ") {
                sentence = 0;
            }
            for word in line.split_whitespace() {
                sentence += 1;
                if sentence == SENTENCE_MAX + 1 {
                    found.push(place.clone());
                }
                if word.ends_with(['.', ':', '?', '!', ';', ')']) {
                    sentence = 0;
                }
            }
        }
    }
    holds(&found, &format!("split sentences of more than {SENTENCE_MAX} words"));
}

fn names(line: &str) -> impl Iterator<Item = String> {
    let line = line.split("r#").next().unwrap_or_default();
    let outside = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let code = outside.split("//").next().unwrap_or_default().to_owned();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[test]
fn texts_refer_to_no_absent_files() {
    let files = files();
    let lines = files.iter().flat_map(File::lines);
    let workplaces = WORKPLACES.map(|top| format!("/{top}/"));
    let absent: Vec<&str> = ABSENT_FILES.into_iter().chain(workplaces.iter().map(String::as_str)).collect();
    let found: Vec<String> = lines
        .filter(|(_, line)| absent.iter().any(|absent| line.contains(absent)))
        .map(|(place, line)| format!("{place}: {}", line.trim()))
        .collect();
    holds(&found, "replace the reference by its content: readers do not have that file");
}

#[test]
fn links_in_documents_lead_to_files() {
    let files = files();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.name.ends_with(".md")) {
        let directory = root.join(&file.name).parent().expect("the file has no directory").to_owned();
        for (place, line) in file.lines() {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            let here = targets.filter(|target| !target.is_empty() && !target.contains("://"));
            found.extend(
                here.filter(|target| !directory.join(target).exists())
                    .map(|target| format!("{place}: {target}")),
            );
        }
    }
    holds(&found, "these links lead nowhere");
}

#[test]
fn code_has_no_markers_of_unfinished_work() {
    let files = files();
    let code = files.iter().filter(|file| file.is_code()).flat_map(File::lines);
    let marks = LATER.map(str::to_uppercase);
    let found: Vec<String> = code
        .filter(|(_, line)| {
            marks.iter().any(|mark| line.split_whitespace().any(|word| word.starts_with(mark)))
        })
        .map(|(place, line)| format!("{place}: {}", line.trim()))
        .collect();
    holds(&found, "do it now, or open an issue");
}

#[test]
fn commit_hook_checks_subject() {
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/hooks/commit-msg");
    let file = std::env::temp_dir().join(format!("xoff-subject-{}", std::process::id()));
    let is_accepted = |subject: &str| {
        fs::write(&file, format!("{subject}\n\nA body.\n"))
            .expect("the directory for temporary files is writable");
        let output = Command::new(&hook).arg(&file).output().expect("bash runs the hook");
        assert_eq!(output.status.success(), output.stderr.is_empty(), "{subject}");
        output.status.success()
    };
    let longest = format!("xdp: {}", "a".repeat(67));
    for (subject, accepted) in [
        ("xdp: release rings", true),
        ("xdp,netns-tests: release rings", true),
        (longest.as_str(), true),
        (&format!("{longest}a"), false),
        ("Release rings", false),
        ("xdp, host: release rings", false),
        ("xdp:release rings", false),
        ("Revert \"xdp: release rings\"", true),
    ] {
        assert_eq!(is_accepted(subject), accepted, "{subject}");
    }
    fs::remove_file(&file).expect("the file exists");
}
