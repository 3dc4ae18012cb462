//! What a switch of a fabric is told: keys of its configuration, by their place in the file. And beside
//! them the reaction points of the hosts, which belong to the congestion points of the switches.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use xoff_config::OwnPolicy;
use xoff_flow_control::congestion::ReactionSettings;
use xoff_wire::units::{BitRate, Bytes, Nanos};

use crate::record::Recorder;
use crate::stall::Stall;

/// Keys and values by table; a later value replaces an earlier one. Table `trunk` is for all ports that lead
/// to switches.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    tables: BTreeMap<String, BTreeMap<String, String>>,
    /// Tables of which the second has what the first has.
    copies: Vec<(String, String)>,
    /// What is said last, of every switch that is compared: place and value.
    over: Vec<(String, String)>,
    /// Streams of hosts slow down as CNMs ask, by these parameters; `None`: they do not.
    pub reaction: Option<ReactionSettings>,
    /// What is compared, for messages.
    pub policy: Option<&'static str>,
    /// The policy that the program brings along, which a key may choose.
    pub own_policy: Option<OwnPolicy>,
    /// Where chance begins: of congestion points, of the hosts' reaction points, and of what a load draws by lot.
    pub seed: u64,
    /// What a simulated machine does to its programs; `None`: nothing.
    pub stall: Option<Stall>,
    /// Takes what every look saw; `None`: nobody asks for it.
    pub recorder: Option<Recorder>,
}

impl Settings {
    /// A value as it stands in TOML, at `path`: `set("class.3.xoff", "\"50KB\"")`.
    ///
    /// # Panics
    /// Where `path` names no table.
    pub fn set(&mut self, path: &str, value: impl Into<String>) -> &mut Settings {
        let (table, key) = path.rsplit_once('.').expect("a path names a table and a key");
        self.tables.entry(table.to_owned()).or_default().insert(key.to_owned(), value.into());
        self
    }

    /// A value that counts whatever a plan says of its switches.
    pub fn lay_over(&mut self, path: &str, value: impl Into<String>) -> &mut Settings {
        self.over.push((path.to_owned(), value.into()));
        self
    }

    /// Says last what `other` lays over, wherever that reaches.
    pub(crate) fn laid_over_by(&mut self, other: &Settings) -> &mut Settings {
        for (path, value) in &other.over {
            other.reach(path).into_iter().for_each(|path| _ = self.set(&path, value));
        }
        self
    }

    /// Where a value that is laid over at `path` stands in the end: there, and in tables that have what this one has, unless
    /// another value of that key was given them, or is laid over there.
    #[must_use]
    pub fn reach(&self, path: &str) -> Vec<String> {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let value = |table: &str| self.tables.get(table).and_then(|keys| keys.get(key));
        let copies = self.copies.iter().filter(|(from, to)| from == table && value(from) == value(to));
        let others = copies.map(|(_, to)| format!("{to}.{key}"));
        let others = others.filter(|other| self.over.iter().all(|(over, _)| over != other));
        std::iter::once(path.to_owned()).chain(others).collect()
    }

    /// A text.
    pub fn text(&mut self, path: &str, value: impl Display) -> &mut Settings {
        self.set(path, format!("\"{value}\""))
    }

    /// A size in bytes.
    pub fn bytes(&mut self, path: &str, value: Bytes) -> &mut Settings {
        self.set(path, value.0.to_string())
    }

    /// What a line of `rate` carries in `span`.
    pub fn span(&mut self, path: &str, rate: BitRate, span: Nanos) -> &mut Settings {
        self.bytes(path, rate.bytes_in(span))
    }

    /// What stands in table `from` stands in table `to` too, and what is laid over it later.
    pub fn copy(&mut self, from: &str, to: &str) -> &mut Settings {
        let keys = self.tables.get(from).cloned().unwrap_or_default();
        self.tables.entry(to.to_owned()).or_default().extend(keys);
        self.copies.push((from.to_owned(), to.to_owned()));
        self
    }

    /// Takes over all of `other`.
    pub fn extend(&mut self, other: &Settings) -> &mut Settings {
        for (table, keys) in &other.tables {
            let into = self.tables.entry(table.clone()).or_default();
            into.extend(keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        self.reaction = other.reaction.or(self.reaction);
        self.own_policy = other.own_policy.clone().or(self.own_policy.take());
        self.over.extend(other.over.iter().cloned());
        self.copies.extend(other.copies.iter().cloned());
        self
    }

    /// What stands in table `trunk`, as keys of a port; a plan gives them to ports between switches.
    #[must_use]
    pub(crate) fn of_trunks(&self) -> Settings {
        let keys = self.tables.get(TRUNK).cloned().unwrap_or_default();
        Settings { tables: BTreeMap::from([(PORT.to_owned(), keys)]), ..Settings::default() }
    }

    /// All but table `trunk`.
    #[must_use]
    pub(crate) fn without_trunks(mut self) -> Settings {
        self.tables.remove(TRUNK);
        self
    }

    /// As what stands below a `[[port]]`: the keys of table `port`, and the other tables as parts of it.
    #[must_use]
    pub fn below_port(&self) -> String {
        let own = self.tables.get(PORT).into_iter().map(lines);
        let parts = self.tables.iter().filter(|(table, _)| *table != PORT);
        own.chain(parts.map(|(table, keys)| format!("[{PORT}.{table}]\n{}", lines(keys)))).collect()
    }
}

const PORT: &str = "port";
const TRUNK: &str = "trunk";

fn lines(keys: &BTreeMap<String, String>) -> String {
    keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

impl Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables.iter().try_for_each(|(table, keys)| write!(f, "[{table}]\n{}", lines(keys)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_their_tables_and_the_last_value_counts() {
        let mut settings = Settings::default();
        settings.set("switch.http", "false").bytes("class.3.xoff", Bytes(50_000)).text("switch.log", "info");
        let mut more = Settings::default();
        more.text("switch.log", "warn");
        settings.extend(&more);
        assert_eq!(settings.to_string(), "[class.3]\nxoff = 50000\n[switch]\nhttp = false\nlog = \"warn\"\n");
    }

    #[test]
    fn a_table_is_copied_and_what_else_stood_there_stays() {
        let mut settings = Settings::default();
        settings.set("class.3.xoff", "1").set("class.2.xon", "2").copy("class.3", "class.2");
        assert_eq!(settings.to_string(), "[class.2]\nxoff = 1\nxon = 2\n[class.3]\nxoff = 1\n");
    }

    #[test]
    fn what_is_laid_over_a_table_reaches_those_that_have_the_same() {
        let mut variant = Settings::default();
        variant.set("class.3.xoff", "1").copy("class.3", "class.2").copy("class.3", "class.4");
        variant.text("class.4.weight", "strict");
        for (path, value) in [("class.3.xoff", "5"), ("class.3.weight", "7"), ("class.2.weight", "9")] {
            variant.lay_over(path, value);
        }
        assert_eq!(variant.reach("class.3.xoff"), ["class.3.xoff", "class.2.xoff", "class.4.xoff"]);
        assert_eq!(variant.reach("class.3.weight"), ["class.3.weight"], "both say something else");
        assert_eq!(variant.reach("class.2.xoff"), ["class.2.xoff"]);
        assert_eq!(variant.reach("switch.log"), ["switch.log"]);
        let mut settings = Settings::default();
        settings.extend(&variant).laid_over_by(&variant);
        let expected = "[class.2]\nweight = 9\nxoff = 5\n[class.3]\nweight = 7\nxoff = 5\n[class.4]\nweight = \"strict\"\nxoff = 5\n";
        assert_eq!(settings.to_string(), expected);
    }

    #[test]
    fn a_port_has_its_own_keys_before_its_tables() {
        let mut settings = Settings::default();
        settings.set("class.3.xoff", "1").set("port.mtu", "1500");
        assert_eq!(settings.below_port(), "mtu = 1500\n[port.class.3]\nxoff = 1\n");
    }
}
