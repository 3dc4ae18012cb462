use netlink_packet_core::NLM_F_CREATE;

use super::bpf::{ALL_PROTOCOLS, BpfInstruction, TCA_BPF_OPS};
use super::node::Node;
use super::request::{Place, Request, description};
use crate::attributes::{Attributes, find, word};

const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;

const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const ACT_STOLEN: u32 = 4;
const REDIRECT_OUT: u32 = 1;

/// Filter (cls_bpf) for frames of every EtherType.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Priority among the filters at the same place; lower values run first.
    pub priority: u16,
    pub program: Vec<BpfInstruction>,
    pub answer: Answer,
}

/// Meaning of the number that a [`Filter`]'s program returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The number is the class for the frame; 0 passes the frame to the next filter.
    Class,
    /// The number is an action: -1 passes the frame on to the next filter, 4 (TC_ACT_STOLEN) drops it.
    Verdict,
    /// The number -1 redirects the frame (mirred) to the device with this index; 0 passes the frame to the next
    /// filter.
    RedirectTo(i32),
}

impl Filter {
    #[must_use]
    pub fn redirect(priority: u16, ifindex: i32) -> Filter {
        const RETURN: u16 = 0x06;
        let program = vec![BpfInstruction { code: RETURN, jt: 0, jf: 0, k: u32::MAX }];
        Filter { priority, program, answer: Answer::RedirectTo(ifindex) }
    }

    #[must_use]
    pub fn put(&self, place: Place) -> Request {
        let len = u16::try_from(self.program.len()).expect("BPF program exceeds 65,535 instructions");
        let bytes: Vec<u8> = self.program.iter().flat_map(|instruction| instruction.to_bytes()).collect();
        let program = Attributes::default().u16(TCA_BPF_OPS_LEN, len).bytes(TCA_BPF_OPS, &bytes);
        let options = match self.answer {
            Answer::Class => program,
            Answer::Verdict => program.u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT),
            Answer::RedirectTo(ifindex) => {
                program.nested(TCA_BPF_ACT, &Attributes::default().nested(1, &redirection(ifindex)))
            }
        };
        let info = u32::from(self.priority) << 16 | u32::from(ALL_PROTOCOLS.to_be());
        let what = description("create or replace", "bpf filter", place);
        Request::new(RTM_NEWTFILTER, NLM_F_CREATE, place, info, Some(("bpf", &options)), what)
    }

    #[must_use]
    pub fn agrees_with(&self, node: &Node) -> bool {
        let flags = find(&node.options, TCA_BPF_FLAGS).map_or(0, |flags| word(flags, 0));
        let is_verdict = flags & TCA_BPF_FLAG_ACT_DIRECT != 0;
        let has_action = find(&node.options, TCA_BPF_ACT).is_some();
        node.is_program()
            && node.priority() == self.priority
            && is_verdict == (self.answer == Answer::Verdict)
            && has_action == matches!(self.answer, Answer::RedirectTo(_))
            && node.program() == self.program
    }

    /// Builds a request to delete the filter `node`. If `node` has no handle, the request deletes all filters of its priority and protocol.
    #[must_use]
    pub fn delete(ifindex: i32, node: &Node) -> Request {
        let place = Place { ifindex, parent: node.parent, handle: node.handle };
        let what = description("remove", "filter", place);
        Request::new(RTM_DELTFILTER, 0, place, node.info, None, what)
    }
}

fn redirection(ifindex: i32) -> Attributes {
    let parameters = [0, 0, ACT_STOLEN, 0, 0, REDIRECT_OUT, ifindex.cast_unsigned()];
    let options = Attributes::default().words(TCA_MIRRED_PARMS, &parameters);
    Attributes::default().text(TCA_ACT_KIND, "mirred").nested(TCA_ACT_OPTIONS, &options)
}
