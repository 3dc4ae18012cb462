//! What was at the device before the tree: its root queueing discipline, its offloads, and how much may wait for neighbours.
//!
//! It is kept in the tree itself, as a filter that no frame reaches: a program whose first instruction ends it, and whose others
//! are the numbers to be kept. So it goes with the device, is in its network namespace, and outlives whoever made the tree.

use xoff_tc::{Answer, BpfInstruction, Filter, Handle, Node, Place, Qdisc, Tc};
use xoff_xdp::{Offloads, OffloadsBefore};

use super::error::EgressError;
use super::neighbours::{NeighbourBytes, NeighbourQueues};
use super::tree::{self, BEFORE, ROOT};

/// Kinds that come back as they were from what the kernel shows of them.
const KINDS: [&str; 12] = [
    "noqueue",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "codel",
    "fq_codel",
    "fq",
    "cake",
    "pie",
    "fq_pie",
    "tbf",
];

const RETURN: u16 = 0x06;
const LOAD_IMMEDIATE: u16 = 0x00;

/// What was before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// `None`: not known, and left as they are.
    offloads: Option<OffloadsBefore>,
    neighbours: NeighbourBytes,
    /// `None`: the device's default, which it gets by itself.
    root: Option<Root>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    handle: Handle,
    kind: String,
    options: Vec<u8>,
}

impl Before {
    /// What is at a device now.
    pub(super) fn of(
        device: &str,
        nodes: &[Node],
        offloads: &Offloads,
        queues: &NeighbourQueues,
    ) -> Result<Before, EgressError> {
        let root = nodes.iter().find(|node| node.parent == Handle::ROOT && node.handle != Handle::NONE);
        let root = root.map(|node| {
            let in_it =
                |other: &Node| other.parent != Handle::ROOT && other.parent.major() == node.handle.major();
            if !KINDS.contains(&node.kind.as_str()) || nodes.iter().any(in_it) {
                let (kind, handle) = (node.kind.clone(), node.handle.to_string());
                return Err(EgressError::Stranger { device: device.to_owned(), kind, handle });
            }
            Ok(Root { handle: node.handle, kind: node.kind.clone(), options: node.options.clone() })
        });
        let offloads =
            offloads.read().map_err(|source| EgressError::system("read the offloads of", device, source))?;
        let neighbours = queues.read();
        Ok(Before { offloads: Some(offloads), neighbours, root: root.transpose()? })
    }

    /// What a tree has kept.
    pub(super) fn read(tc: &mut Tc, ifindex: i32) -> Result<Before, EgressError> {
        let filters = tc.filters(ifindex, ROOT)?;
        let kept = filters.iter().find(|filter| filter.priority() == BEFORE && !filter.options.is_empty());
        // One that ended before it wrote this had replaced the root, and changed nothing else: the device gets its default back.
        Ok(kept.and_then(|filter| Before::from_program(&filter.program())).unwrap_or_default())
    }

    /// How much waited for neighbours.
    pub(super) fn neighbours(&self) -> NeighbourBytes {
        self.neighbours
    }

    /// Keeps it in the tree.
    pub(super) fn write(&self, tc: &mut Tc, ifindex: i32) -> Result<(), EgressError> {
        let place = Place { ifindex, parent: ROOT, handle: Handle(1) };
        let kept = Filter { priority: BEFORE, program: self.to_program(), answer: Answer::Class };
        tree::tree(tc.send(&mut kept.put(place)))
    }

    /// Takes the tree away and puts the root in its place. What could not be done is returned in words, here and below.
    pub(super) fn put_root_back(&self, tc: &mut Tc, ifindex: i32) -> Vec<String> {
        let place = |handle| Place { ifindex, parent: Handle::ROOT, handle };
        if let Err(error) = tc.send(&mut Qdisc::delete(place(ROOT))) {
            return vec![error.to_string()];
        }
        let mut warnings = Vec::new();
        if let Some(Root { handle, kind, options }) = &self.root {
            let like_before = |options: &[u8]| Qdisc::Other { kind: kind.clone(), options: options.to_vec() };
            if let Err(error) = tc.send(&mut like_before(options).replace(place(*handle))) {
                warnings.push(format!("{error}: it has the kernel's defaults"));
                let defaults = tc.send(&mut like_before(&[]).replace(place(*handle)));
                warnings.extend(defaults.err().map(|error| error.to_string()));
            }
        }
        warnings
    }

    /// Puts back what is not in the tree; `device`: what it is called by now.
    pub(super) fn put_rest_back(
        &self,
        device: &str,
        offloads: &Offloads,
        queues: &NeighbourQueues,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(Err(error)) = self.offloads.as_ref().map(|before| offloads.put_back(before)) {
            warnings.push(format!("cannot put the offloads of {device} back: {error}"));
        }
        if let Err(error) = queues.set_at(device, self.neighbours) {
            warnings.push(format!("cannot put back what may wait for neighbours of {device}: {error}"));
        }
        warnings
    }

    /// Numbers: how many are of offloads, those; of neighbours; of the root its number, and its kind and options as bytes, each
    /// behind their number.
    fn to_program(&self) -> Vec<BpfInstruction> {
        let offloads = self.offloads.as_ref().map(OffloadsBefore::to_words).unwrap_or_default();
        let mut words = counted(&offloads);
        words.extend(self.neighbours.to_words());
        if let Some(Root { handle, kind, options }) = &self.root {
            words.push(handle.0);
            for bytes in [kind.as_bytes(), options] {
                let bytes: Vec<u32> = bytes.iter().copied().map(u32::from).collect();
                words.extend(counted(&bytes));
            }
        }
        let end = BpfInstruction { code: RETURN, jt: 0, jf: 0, k: 0 };
        let kept = words.into_iter().map(|k| BpfInstruction { code: LOAD_IMMEDIATE, jt: 0, jf: 0, k });
        [end].into_iter().chain(kept).chain([end]).collect()
    }

    fn from_program(program: &[BpfInstruction]) -> Option<Before> {
        let [_, kept @ .., _] = program else { return None };
        let words: Vec<u32> = kept.iter().map(|instruction| instruction.k).collect();
        let (offloads, rest) = take(&words)?;
        let (&neighbours, rest) = rest.split_first_chunk::<{ NeighbourBytes::WORDS }>()?;
        let root = match rest.split_first() {
            None => None,
            Some((&handle, rest)) => {
                let (kind, rest) = take(rest)?;
                let (options, _) = take(rest)?;
                let bytes = |words: &[u32]| {
                    words.iter().map(|&word| u8::try_from(word).ok()).collect::<Option<Vec<u8>>>()
                };
                Some(Root {
                    handle: Handle(handle),
                    kind: String::from_utf8(bytes(kind)?).ok()?,
                    options: bytes(options)?,
                })
            }
        };
        let neighbours = NeighbourBytes::from_words(neighbours);
        Some(Before { offloads: OffloadsBefore::from_words(offloads), neighbours, root })
    }
}

fn counted(words: &[u32]) -> Vec<u32> {
    let count = u32::try_from(words.len()).expect("attributes are small");
    [&[count], words].concat()
}

fn take(words: &[u32]) -> Option<(&[u32], &[u32])> {
    let (&count, rest) = words.split_first()?;
    rest.split_at_checked(usize::try_from(count).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_in_a_program_is_read_from_it_again() {
        let offloads = OffloadsBefore::from_words(&[65_535, 0xffff_0000, 0x1234_5678, 7, 9]);
        assert!(offloads.is_some());
        let root = |kind: &str, options: &[u8]| {
            Some(Root { handle: Handle::new(0xff, 0), kind: kind.to_owned(), options: options.to_vec() })
        };
        let waiting = NeighbourBytes::from_words([212_992, u32::MAX]);
        for (offloads, root) in [
            (None, None),
            (offloads.clone(), None),
            (offloads.clone(), root("pfifo", &[232, 3, 0, 0])),
            (None, root("fq_codel", &[])),
        ] {
            let before = Before { offloads, neighbours: waiting, root };
            assert_eq!(Before::from_program(&before.to_program()), Some(before.clone()));
            assert_eq!(before.to_program()[0].code, RETURN, "no frame gets into it");
        }
        assert_eq!(Before::from_program(&[]), None);
    }
}
