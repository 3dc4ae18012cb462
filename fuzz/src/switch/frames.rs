use xoff_testkit::bed::{Star, payload};
use xoff_wire::cnm::{CongestionPointId, Envelope, Msdu};
use xoff_wire::mac_control::DESTINATION;
use xoff_wire::units::{ClassSet, MacAddr, Quanta, RateStep};
use xoff_wire::{CnTag, Cnm, FlowKey, FlowPauseWriter, MacControl, Operation, Pfc, Rates, Tci};

use super::input::Input;

pub fn data(input: &mut Input<'_>, star: &Star) -> Vec<u8> {
    let mut bytes = [input.address(star).0, input.address(star).0].concat();
    let tag = any_tag(input);
    bytes.extend(tag.into_iter().flat_map(|tag| [0x8100, tag.0]).flat_map(u16::to_be_bytes));
    let cn_tag = input.one_of([None, None, Some(CnTag(7))]);
    bytes.extend(cn_tag.into_iter().flat_map(|tag| [0x22e9, tag.0]).flat_map(u16::to_be_bytes));
    let (tos, len) = (input.byte(), input.len());
    bytes.extend(match input.below(3) {
        0 => vec![0x08, 0x00, 0x45, tos, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7],
        1 => vec![0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0, 0, 6, 17, 64],
        _ => vec![0x12, 0x34, tos],
    });
    bytes.resize(len as usize, 0);
    bytes
}

pub fn notice(input: &mut Input<'_>, star: &Star) -> Vec<u8> {
    let [dst, src] = [input.address(star), input.address(star)];
    let envelope = Envelope { dst, src, tag: any_tag(input), cn_tag: Some(CnTag(input.byte().into())) };
    let priority = input.class();
    let cnm = Cnm {
        feedback: input.byte() & 63,
        congestion_point: CongestionPointId::new(src, priority),
        q_offset: 1,
        q_delta: 1,
        priority,
        destination: dst,
        msdu: Msdu::of(&input.bytes(64)),
    };
    cnm.encode(&envelope).as_bytes().to_vec()
}

/// Returns arbitrary bytes that the test bed cannot mistake for a damaged frame of its own.
pub fn any(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = input.bytes(u8::MAX);
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(&payload::ETHER_TYPE) {
            bytes[at] = 0;
        }
    }
    bytes
}

pub fn any_control(input: &mut Input<'_>) -> Vec<u8> {
    let head = [&DESTINATION.0[..], &[2, 0, 0, 0, 0, 9], &[0x88, 0x08, input.below(2), 0x01]].concat();
    [head, input.bytes(80)].concat()
}

pub fn pfc(input: &mut Input<'_>) -> MacControl {
    let (classes, time) = (ClassSet(input.byte()), Quanta(input.number()));
    MacControl::Pfc(classes.iter().fold(Pfc::default(), |pfc, class| pfc.with(class, time)))
}

pub fn list(input: &mut Input<'_>, star: &Star) -> Vec<u8> {
    let operation = match input.number() {
        0 => Operation::Resume,
        time => Operation::Pause(Quanta(time)),
    };
    let mut bytes = [0; 600];
    let mut list = FlowPauseWriter::new(&mut bytes, MacAddr([2, 0, 0, 0, 0, 9]), operation, input.class());
    for _ in 0..=input.below(4) {
        let (src, dst) = (input.address(star), input.address(star));
        list.push(&FlowKey::L2 { src, dst, ether_type: u16::from_be_bytes(payload::ETHER_TYPE) });
    }
    list.finish().to_vec()
}

pub fn rates(input: &mut Input<'_>) -> Rates {
    let (classes, step) = (ClassSet(input.byte()), input.below(17));
    let rates = Rates { time: Quanta(input.number()), ..Rates::default() };
    let step = RateStep::new(step).expect("17 steps");
    classes.iter().fold(rates, |rates, class| rates.with(class, step))
}

fn any_tag(input: &mut Input<'_>) -> Option<Tci> {
    let vid = input.one_of([None, Some(0), Some(1), Some(2), Some(3), Some(4095)])?;
    Some(Tci::new(input.class(), false, vid))
}
