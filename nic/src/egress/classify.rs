//! Classic BPF program that classifies the kernel's frames as a switch does ([`xoff_flow_control::classify`]). MAC control and LLDP get
//! no class, so that no pause delays them.

use xoff_flow_control::settings::Trust;
use xoff_netlink::tc::BpfInstruction;
use xoff_wire::units::Class;

use crate::bpf::{IF_EQUAL, LOAD_HALF, LOAD_WORD, RETURN, VLAN_TAG, VLAN_TAG_PRESENT, VLAN_TPID};
use crate::config::NicSettings;

pub(super) struct Classes {
    pub(super) control: u32,
    pub(super) class: [u32; 8],
}

/// Frame that makes the kernel poll its queues. Its addresses are zero; its EtherType is for local experiments.
pub(super) const WAKE_FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let head = *b"\x88\xb5xoffwake";
    let mut at = 0;
    while at < head.len() {
        frame[12 + at] = head[at];
        at += 1;
    }
    frame
};

const LOAD_LEN: u16 = 0x80;
const LOAD_MEMORY: u16 = 0x60;
const LOAD_HALF_X: u16 = 0x48;
const LOAD_BYTE_X: u16 = 0x50;
const LOAD_IMMEDIATE: u16 = 0x00;
const LOAD_X: u16 = 0x01;
const STORE: u16 = 0x02;
const ADD: u16 = 0x04;
const SUBTRACT_X: u16 = 0x1c;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const JUMP: u16 = 0x05;
const IF_GREATER: u16 = 0x25;
const IF_AT_LEAST: u16 = 0x35;
const TO_X: u16 = 0x07;
const FROM_X: u16 = 0x87;

const DOT1Q: u32 = 0x8100;
const CN_TAG: u32 = 0x22e9;
const MAC_CONTROL: u32 = 0x8808;
const LLDP: u32 = 0x88cc;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const LOCAL_EXPERIMENT: u32 = 0x88b5;

const PCP: u32 = 0;
const ETHER_TYPE: u32 = 1;
const NO_PCP: u32 = 8;

const ASK_NEXT: u32 = u32::MAX;
const ENDS_HERE: u32 = 4;

#[derive(Clone, Copy)]
struct Label(usize);

#[derive(Default)]
struct Assembler {
    code: Vec<BpfInstruction>,
    labels: Vec<Option<usize>>,
    open: Vec<(usize, Arm, Label)>,
}

#[derive(Clone, Copy)]
enum Arm {
    Always,
    True,
    False,
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn put(&mut self, code: u16, k: u32) -> &mut Assembler {
        self.code.push(BpfInstruction { code, jt: 0, jf: 0, k });
        self
    }

    fn jump(&mut self, to: Label) {
        self.open.push((self.code.len(), Arm::Always, to));
        self.put(JUMP, 0);
    }

    fn unless(&mut self, test: u16, k: u32, to: Label) -> &mut Assembler {
        self.open.push((self.code.len(), Arm::False, to));
        self.put(test, k)
    }

    fn when(&mut self, test: u16, k: u32, to: Label) -> &mut Assembler {
        self.open.push((self.code.len(), Arm::True, to));
        self.put(test, k)
    }

    fn table(&mut self, answers: &[u32]) {
        self.table_from(0, answers);
    }

    fn table_from(&mut self, first: u32, answers: &[u32]) {
        let Some((&answer, _)) = answers.split_first() else { return };
        if answers.iter().all(|&other| other == answer) {
            self.put(RETURN, answer);
            return;
        }
        let (low, high) = answers.split_at(answers.len() / 2);
        let middle =
            first + u32::try_from(low.len()).expect("the classifier's table must have at most 2^32 entries");
        let above = self.label();
        self.when(IF_AT_LEAST, middle, above);
        self.table_from(first, low);
        self.here(above);
        self.table_from(middle, high);
    }

    fn finish(mut self) -> Vec<BpfInstruction> {
        for (at, arm, to) in self.open {
            let distance = self.labels[to.0].expect("each label must have a position") - at - 1;
            let short =
                || u8::try_from(distance).expect("a conditional jump must skip at most 255 instructions");
            match arm {
                Arm::Always => {
                    self.code[at].k =
                        u32::try_from(distance).expect("a jump must skip less than 2^32 instructions")
                }
                Arm::True => self.code[at].jt = short(),
                Arm::False => self.code[at].jf = short(),
            }
        }
        self.code
    }
}

pub(super) fn program(settings: &NicSettings, classes: &Classes) -> Vec<BpfInstruction> {
    let answer = |class: Class| classes.class[class.index()];
    let none = answer(settings.default_class);
    let by_dscp = settings.dscp_to_class.map(answer);
    let by_pcp = settings.pcp_to_class.map(answer);
    let mut code = Assembler::default();
    read_tags(&mut code, classes.control, none);
    if settings.trust == Trust::Pcp {
        code.put(LOAD_MEMORY, PCP);
        code.table(&[&by_pcp[..], &[none]].concat());
    } else {
        let no_dscp = code.label();
        let dscp = read_dscp(&mut code, no_dscp);
        code.here(no_dscp);
        code.put(RETURN, none);
        code.here(dscp);
        code.table(&by_dscp);
    }
    code.finish()
}

/// Emits code that stores PCP and EtherType in scratch memory, and leaves the payload's offset in register X.
fn read_tags(code: &mut Assembler, control: u32, none: u32) {
    let [inline, tagged, cn_tag, ip] = [(); 4].map(|()| code.label());
    let not_8021q = code.label();
    code.put(LOAD_WORD, VLAN_TAG_PRESENT).when(IF_EQUAL, 0, inline);
    code.put(LOAD_WORD, VLAN_TPID).unless(IF_EQUAL, DOT1Q, not_8021q);
    code.put(LOAD_WORD, VLAN_TAG).put(SHIFT_RIGHT, 13).put(STORE, PCP).put(LOAD_X, 14).put(LOAD_HALF, 12);
    code.jump(cn_tag);
    code.here(not_8021q);
    code.put(RETURN, none);
    code.here(inline);
    code.put(LOAD_HALF, 12).when(IF_EQUAL, DOT1Q, tagged);
    let [unpaused, data] = [(); 2].map(|()| code.label());
    code.when(IF_EQUAL, MAC_CONTROL, unpaused).unless(IF_EQUAL, LLDP, data);
    code.here(unpaused);
    code.put(RETURN, control);
    code.here(data);
    code.put(LOAD_IMMEDIATE, NO_PCP).put(STORE, PCP).put(LOAD_X, 14).put(LOAD_HALF, 12);
    code.jump(cn_tag);
    code.here(tagged);
    code.put(LOAD_HALF, 14).put(SHIFT_RIGHT, 13).put(STORE, PCP).put(LOAD_X, 18).put(LOAD_HALF, 16);
    code.here(cn_tag);
    code.unless(IF_EQUAL, CN_TAG, ip);
    code.put(LOAD_HALF_X, 2).put(STORE, ETHER_TYPE).put(FROM_X, 0).put(ADD, 4).put(TO_X, 0);
    code.put(LOAD_MEMORY, ETHER_TYPE);
    code.here(ip);
    code.put(STORE, ETHER_TYPE);
}

fn read_dscp(code: &mut Assembler, none: Label) -> Label {
    let [ipv4, dscp] = [(); 2].map(|()| code.label());
    code.put(LOAD_MEMORY, ETHER_TYPE).when(IF_EQUAL, IPV4, ipv4).unless(IF_EQUAL, IPV6, none);
    code.put(LOAD_LEN, 0).put(SUBTRACT_X, 0).unless(IF_AT_LEAST, 40, none);
    code.put(LOAD_HALF_X, 0).put(SHIFT_RIGHT, 12).unless(IF_EQUAL, 6, none);
    code.put(LOAD_HALF_X, 0).put(SHIFT_RIGHT, 6).put(AND, 63);
    code.jump(dscp);
    code.here(ipv4);
    code.put(LOAD_LEN, 0).put(SUBTRACT_X, 0).unless(IF_AT_LEAST, 20, none);
    code.put(LOAD_BYTE_X, 0).unless(IF_AT_LEAST, 0x45, none).when(IF_GREATER, 0x4f, none);
    code.put(LOAD_BYTE_X, 1).put(SHIFT_RIGHT, 2);
    code.jump(dscp);
    dscp
}

pub(super) fn wake_program() -> Vec<BpfInstruction> {
    let mut code = Assembler::default();
    let other = code.label();
    code.put(LOAD_HALF, 12).unless(IF_EQUAL, LOCAL_EXPERIMENT, other);
    code.put(LOAD_LEN, 0).unless(IF_AT_LEAST, 22, other);
    for (at, text) in [(14, *b"xoff"), (18, *b"wake")] {
        code.put(LOAD_WORD, at).unless(IF_EQUAL, u32::from_be_bytes(text), other);
    }
    code.put(RETURN, ENDS_HERE);
    code.here(other);
    code.put(RETURN, ASK_NEXT);
    code.finish()
}
