use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) type Settings = BTreeMap<(Option<u8>, &'static str), String>;

#[derive(Debug, Default)]
pub(super) struct Written {
    pub name: Option<String>,
    pub memory: Vec<String>,
    pub ports: Vec<(String, Settings)>,
    /// Settings of the imported file that xoff does not have; they become comments.
    pub notes: Vec<String>,
}

impl Written {
    pub(super) fn text(&self) -> String {
        let mut text: String = self.notes.iter().map(|note| comment(note)).collect();
        if let Some(name) = &self.name {
            let _ = write!(text, "\n[switch]\nname = {}\n", quoted(name));
        }
        if !self.memory.is_empty() {
            let _ = write!(text, "\n[memory]\n{}\n", self.memory.join("\n"));
        }
        let mut shared = self.ports.first().map(|(_, settings)| settings.clone()).unwrap_or_default();
        shared.retain(|key, value| self.ports.iter().all(|(_, settings)| settings.get(key) == Some(value)));
        text += &tables("\n[defaults]\n", "class", &shared, |_| true);
        for (name, settings) in &self.ports {
            let name = quoted(name);
            let heading = format!("\n[[port]]\nname = {name}\ndevice = {name}\n");
            text += &heading;
            text += &tables("", "port.class", settings, |key| !shared.contains_key(key));
        }
        text
    }
}

fn comment(note: &str) -> String {
    format!("# Not converted: {}\n", note.replace(char::is_control, " "))
}

/// Returns `text` as a TOML string. JSON's escapes are valid TOML, but JSON leaves DEL unescaped, which
/// TOML forbids.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

fn tables(
    heading: &str,
    class_table: &str,
    settings: &Settings,
    is_wanted: impl Fn(&(Option<u8>, &'static str)) -> bool,
) -> String {
    let mut text = String::new();
    let mut open = None;
    for ((class, key), value) in settings.iter().filter(|(key, _)| is_wanted(key)) {
        if open != Some(*class) {
            text += &class.map_or_else(|| heading.to_owned(), |class| format!("\n[{class_table}.{class}]\n"));
            open = Some(*class);
        }
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}
