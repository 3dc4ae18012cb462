//! Configuration file as written: values of its [keys](crate::keys) with their places.

use std::sync::Arc;

use toml_span::{Span, Spanned, Value};
use xoff_flow_control::settings::Custom;
use xoff_wire::units::{CLASSES, Class};

use crate::Config;
use crate::hardware::Hardware;
use crate::keys::{
    CaPfcKeys, ClassKeys, FdbKeys, GPfcKeys, GfcKeys, GroupKeys, MemoryKeys, MulticastKeys, OfcKeys,
    PPfcKeys, PipelineKeys, PortIdentityKeys, PortKeys, PuntKeys, QcnKeys, RouterKeys, StaticKeys,
    SwitchKeys, VlanKeys,
};
use crate::own::{self, OwnPolicy};
use crate::reader::Table;
use crate::reader::problem::{Problem, Problems};

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) identity: PortIdentityKeys,
    pub(crate) own: PortKeys,
    pub(crate) keys: PortKeys,
    pub(crate) classes: [ClassKeys; CLASSES],
    pub(crate) missing: Vec<&'static str>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Static {
    pub(crate) keys: StaticKeys,
    pub(crate) missing: Vec<&'static str>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) keys: GroupKeys,
    pub(crate) missing: Vec<&'static str>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Vlan {
    pub(crate) keys: VlanKeys,
    pub(crate) missing: Vec<&'static str>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) hardware: Hardware,
    pub(crate) switch: SwitchKeys,
    pub(crate) pipeline: PipelineKeys,
    pub(crate) memory: MemoryKeys,
    pub(crate) capfc: CaPfcKeys,
    pub(crate) ofc: OfcKeys,
    pub(crate) qcn: QcnKeys,
    pub(crate) p_pfc: PPfcKeys,
    pub(crate) g_pfc: GPfcKeys,
    pub(crate) gfc: GfcKeys,
    pub(crate) custom: Option<Custom>,
    pub(crate) fdb: FdbKeys,
    pub(crate) multicast: MulticastKeys,
    pub(crate) statics: Vec<Static>,
    pub(crate) groups: Vec<Group>,
    pub(crate) router: RouterKeys,
    pub(crate) router_place: Option<Span>,
    pub(crate) punt: PuntKeys,
    pub(crate) vlans: Vec<Vlan>,
    pub(crate) ports: Vec<Port>,
    /// True if key `port` is not a list of tables; the error has then been reported.
    pub(crate) ports_garbled: bool,
    pub(crate) running: Option<Arc<Config>>,
}

pub(crate) const TOP: &[&str] = &[
    "switch",
    "pipeline",
    "memory",
    "policy",
    "qcn",
    "fdb",
    "multicast",
    "defaults",
    "class",
    "group",
    "router",
    "punt",
    "vlan",
    "port",
];
const CLASS_NAMES: [&str; CLASSES] = ["0", "1", "2", "3", "4", "5", "6", "7"];
const CLASS_TABLES: [&str; CLASSES] =
    ["class.0", "class.1", "class.2", "class.3", "class.4", "class.5", "class.6", "class.7"];

impl Document {
    pub(crate) fn read(
        root: &Value<'_>,
        hardware: Hardware,
        own: Option<&OwnPolicy>,
        problems: &mut Problems,
    ) -> Document {
        let Some(root) = Table::of("", root, problems) else { return Document::default() };
        root.no_others(&[TOP], problems);
        let mut document = Document { hardware, ..Document::default() };
        if let Some(table) = root.table("switch", problems) {
            table.no_others(&[SwitchKeys::KEYS], problems);
            document.switch = SwitchKeys::read(&table, problems);
        }
        if let Some(table) = root.table("pipeline", problems) {
            table.no_others(&[PipelineKeys::KEYS], problems);
            document.pipeline = PipelineKeys::read(&table, problems);
        }
        if let Some(table) = root.table("memory", problems) {
            table.no_others(&[MemoryKeys::KEYS], problems);
            document.memory = MemoryKeys::read(&table, problems);
        }
        let policies = root.table("policy", problems);
        if let Some(table) = policies {
            document.read_policies(&table, problems);
        }
        let parameters = policies.and_then(|table| table.value("custom"));
        document.custom = own.map(|own| own.make(parameters, problems));
        if let Some(parameters) = parameters.filter(|_| own.is_none()) {
            own::refuse_table(parameters.span, problems);
        }
        if let Some(table) = root.table("qcn", problems) {
            table.no_others(&[QcnKeys::KEYS], problems);
            document.qcn = QcnKeys::read(&table, problems);
        }
        if let Some(table) = root.table("fdb", problems) {
            document.read_fdb(&table, problems);
        }
        if let Some(table) = root.table("multicast", problems) {
            table.no_others(&[MulticastKeys::KEYS], problems);
            document.multicast = MulticastKeys::read(&table, problems);
        }
        for table in root.tables("group", problems) {
            table.no_others(&[GroupKeys::KEYS], problems);
            let missing = absent(&["name", "ports"], &table);
            document.groups.push(Group {
                keys: GroupKeys::read(&table, problems),
                missing,
                span: table.span,
            });
        }
        if let Some(table) = root.table("router", problems) {
            table.no_others(&[RouterKeys::KEYS], problems);
            document.router = RouterKeys::read(&table, problems);
            document.router_place = Some(table.span);
        }
        if let Some(table) = root.table("punt", problems) {
            table.no_others(&[PuntKeys::KEYS], problems);
            document.punt = PuntKeys::read(&table, problems);
        }
        for table in root.tables("vlan", problems) {
            table.no_others(&[VlanKeys::KEYS], problems);
            let missing = absent(&["vid"], &table);
            document.vlans.push(Vlan { keys: VlanKeys::read(&table, problems), missing, span: table.span });
        }
        let below = document.layer_below(&root, problems);
        document.ports_garbled = root.value("port").is_some_and(|value| value.as_array().is_none());
        for table in root.tables("port", problems) {
            document.ports.push(Port::read(&table, &below, problems));
        }
        document
    }

    fn read_policies(&mut self, table: &Table<'_, '_>, problems: &mut Problems) {
        table.no_others(&[&["capfc", "ofc", "p-pfc", "g-pfc", "gfc", "custom"]], problems);
        if let Some(table) = table.table("capfc", problems) {
            table.no_others(&[CaPfcKeys::KEYS], problems);
            self.capfc = CaPfcKeys::read(&table, problems);
        }
        if let Some(table) = table.table("ofc", problems) {
            table.no_others(&[OfcKeys::KEYS], problems);
            self.ofc = OfcKeys::read(&table, problems);
        }
        if let Some(table) = table.table("p-pfc", problems) {
            table.no_others(&[PPfcKeys::KEYS], problems);
            self.p_pfc = PPfcKeys::read(&table, problems);
        }
        if let Some(table) = table.table("g-pfc", problems) {
            table.no_others(&[GPfcKeys::KEYS], problems);
            self.g_pfc = GPfcKeys::read(&table, problems);
        }
        if let Some(table) = table.table("gfc", problems) {
            table.no_others(&[GfcKeys::KEYS], problems);
            self.gfc = GfcKeys::read(&table, problems);
        }
    }

    fn read_fdb(&mut self, table: &Table<'_, '_>, problems: &mut Problems) {
        table.no_others(&[FdbKeys::KEYS, &["static"]], problems);
        self.fdb = FdbKeys::read(table, problems);
        for entry in table.tables("static", problems) {
            entry.no_others(&[StaticKeys::KEYS], problems);
            let mut missing = absent(&["mac"], &entry);
            if entry.value("group").is_none() {
                missing.extend(absent(&["port"], &entry));
            }
            self.statics.push(Static { keys: StaticKeys::read(&entry, problems), missing, span: entry.span });
        }
    }

    fn layer_below(&self, root: &Table<'_, '_>, problems: &mut Problems) -> Layer {
        let profile =
            self.switch.profile.as_ref().map(|chosen| Layer::of(chosen.value.text()).moved_to(chosen.span));
        let mut own = Layer { classes: read_classes(root, problems), ..Layer::default() };
        if let Some(table) = root.table("defaults", problems) {
            table.no_others(&[PortKeys::KEYS], problems);
            own.keys = PortKeys::read(&table, problems);
            own.states_speed = table.value("speed").is_some();
        }
        let below = self.hardware.text().map(Layer::of);
        own.over(&profile.unwrap_or_default()).over(&below.unwrap_or_default())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Layer {
    keys: PortKeys,
    classes: [ClassKeys; CLASSES],
    states_speed: bool,
}

impl Layer {
    fn of(profile: &'static str) -> Layer {
        let root = toml_span::parse(profile).expect("built-in profiles must be valid TOML");
        Layer::read(&root, &mut Problems::default())
    }

    pub(crate) fn read(root: &Value<'_>, problems: &mut Problems) -> Layer {
        let Some(root) = Table::of("", root, problems) else { return Layer::default() };
        Document::default().layer_below(&root, problems)
    }

    fn over(&self, below: &Layer) -> Layer {
        let mut keys = self.keys.or(&below.keys);
        keys.pcp_map = merged(self.keys.pcp_map.as_ref(), below.keys.pcp_map.as_ref());
        keys.dscp_map = merged(self.keys.dscp_map.as_ref(), below.keys.dscp_map.as_ref());
        let classes = std::array::from_fn(|class| self.classes[class].or(&below.classes[class]));
        Layer { keys, classes, states_speed: self.states_speed || below.states_speed }
    }

    fn moved_to(self, span: Span) -> Layer {
        let classes = self.classes.map(|class| class.moved_to(span));
        Layer { keys: self.keys.moved_to(span), classes, states_speed: self.states_speed }
    }
}

pub(crate) fn missing(table: &str, key: &str, span: Span) -> Problem {
    let example = match key {
        "speed" => "speed = \"1G\"",
        "device" => "device = \"eth1\"",
        "port" => "port = \"a\"",
        "mac" => "mac = \"02:00:00:00:00:01\"",
        "ports" => "ports = [\"a\", \"b\"]",
        _ => "name = \"a\"",
    };
    Problem::missing(&format!("[[{table}]]"), key, example, span)
}

fn absent(keys: &[&'static str], table: &Table<'_, '_>) -> Vec<&'static str> {
    keys.iter().copied().filter(|key| table.value(key).is_none()).collect()
}

fn merged<const N: usize>(
    own: Option<&Spanned<[Option<Class>; N]>>,
    below: Option<&Spanned<[Option<Class>; N]>>,
) -> Option<Spanned<[Option<Class>; N]>> {
    let (Some(own), Some(below)) = (own, below) else { return own.or(below).cloned() };
    let entries = std::array::from_fn(|code| own.value[code].or(below.value[code]));
    Some(Spanned::with_span(entries, own.span))
}

impl Port {
    fn read(table: &Table<'_, '_>, below: &Layer, problems: &mut Problems) -> Port {
        table.no_others(&[PortIdentityKeys::KEYS, PortKeys::KEYS, &["class"]], problems);
        let identity = PortIdentityKeys::read(table, problems);
        let layer = Layer {
            keys: PortKeys::read(table, problems),
            classes: read_classes(table, problems),
            states_speed: table.value("speed").is_some(),
        };
        let Layer { keys, classes, states_speed } = layer.over(below);
        let own = layer.keys;
        let mut missing = absent(&["name", "device"], table);
        missing.extend((!states_speed).then_some("speed"));
        Port { identity, own, keys, classes, missing, span: table.span }
    }
}

fn read_classes(table: &Table<'_, '_>, problems: &mut Problems) -> [ClassKeys; CLASSES] {
    let Some(classes) = table.table("class", problems) else { return Default::default() };
    classes.no_others(&[&CLASS_NAMES], problems);
    std::array::from_fn(|class| {
        let value = classes.value(CLASS_NAMES[class]);
        let table = value.and_then(|value| Table::of(CLASS_TABLES[class], value, problems));
        let Some(class) = table else { return ClassKeys::default() };
        class.no_others(&[ClassKeys::KEYS], problems);
        ClassKeys::read(&class, problems)
    })
}
