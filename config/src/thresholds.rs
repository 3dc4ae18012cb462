//! Limits of each class at ingress and egress.
//!
//! A class that is lossless on some port is *protected*: no egress queue refuses its frames. At ingress, `xoff` and headroom limit
//! them on lossless ports, `ingress_max` on lossy ports. A class that is lossy everywhere is limited at egress, so that one congested
//! port does not take all memory.

use std::fmt::Display;

use toml_span::Spanned;
use xoff_flow_control::settings::{Accounting, ClassSettings, PortSettings, WhenFull};
use xoff_wire::units::{Bytes, CLASSES, Class};

use crate::document::Document;
use crate::draft::Draft;
use crate::keys::{ClassKeys, MemoryModel, Pause, Scale};
use crate::reader::problem::{Problem, Problems};
use crate::reader::value;
use crate::sizing::FRAME_MIN;
use crate::written::names;
use crate::{defaults, ecn, pipeline, watchdog};

pub(crate) fn classes(
    document: &Document,
    drafts: &[Draft<'_>],
    problems: &mut Problems,
) -> Vec<[ClassSettings; CLASSES]> {
    let accounting = value(document.switch.accounting.as_ref(), Accounting::default());
    let when_full = value(document.switch.when_full.as_ref(), WhenFull::default());
    let model = value(document.memory.model.as_ref(), MemoryModel::Dedicated);
    let mut ports: Vec<[ClassSettings; CLASSES]> =
        drafts.iter().map(|draft| Class::ALL.map(|class| alone(document, draft, class))).collect();
    let protected = |class: &Class| drafts.iter().any(|draft| draft.lossless.contains(*class));
    for class in Class::ALL.into_iter().filter(protected) {
        bound_at_ingress(class, drafts, &mut ports);
        mixed(class, drafts, problems);
        if accounting == Accounting::UntilTransmitted {
            open_egress(class, drafts, &mut ports, when_full, problems);
        }
    }
    for (draft, classes) in drafts.iter().zip(&mut ports) {
        for class in Class::ALL {
            let settings = &mut classes[class.index()];
            settings.ecn = ecn::settings(&draft.port.classes[class.index()], settings);
            ecn::check(draft, class, settings, protected(&class), problems);
            check(draft, class, &classes[class.index()], model, problems);
            watchdog::check(draft, class, problems);
        }
    }
    expectations(document, drafts, problems);
    ports
}

pub(crate) fn wanted(ports: &[PortSettings]) -> Bytes {
    let of_class = |class: &ClassSettings| if class.lossless { class.xoff } else { class.egress_max };
    ports.iter().flat_map(|port| &port.classes).map(of_class).fold(Bytes::ZERO, Bytes::saturating_add)
}

/// Returns the settings of a class at one port, as if the class were lossy at all other ports.
fn alone(document: &Document, draft: &Draft<'_>, class: Class) -> ClassSettings {
    let smallest_frame = value(document.switch.smallest_frame.as_ref(), document.hardware.smallest_frame());
    let when_full: WhenFull = value(document.switch.when_full.as_ref(), WhenFull::default());
    let model = value(document.memory.model.as_ref(), MemoryModel::Dedicated);
    let scale = value(document.capfc.scale.as_ref(), Scale::default());
    let keys = &draft.port.classes[class.index()];
    let lossless = draft.lossless.contains(class);
    let headroom = value(keys.headroom.as_ref(), draft.headroom.total());
    let frames = |bytes: Bytes, smallest: u32| {
        u32::try_from(bytes.0.div_ceil(smallest.into())).unwrap_or(u32::MAX).max(1)
    };
    let (xoff, xon) = watermarks(draft, keys);
    let reserve = |key: Option<&Spanned<Bytes>>| match model {
        MemoryModel::Dedicated => Bytes::ZERO,
        MemoryModel::Shared => value(key, Bytes::ZERO),
    };
    let ingress_reserve = reserve(keys.ingress_reserve.as_ref());
    let waits = when_full == WhenFull::Stop || pipeline::settings(document).keeps_frames();
    let (own, smallest_out) = match lossless {
        true => (xoff.saturating_add(headroom), smallest_frame),
        false => (defaults::lossy_egress_max(draft.line.speed), defaults::LOSSY_FRAME),
    };
    let egress_max = value(keys.egress_max.as_ref(), own);
    let ingress_max = defaults::lossy_ingress_max(draft.line.speed);
    let (egress_xon, egress_xoff) = egress_watermarks(draft, keys, scale);
    ClassSettings {
        lossless,
        xoff: if lossless { xoff } else { Bytes::MAX },
        xon: if lossless { xon } else { Bytes::ZERO },
        headroom: if lossless { headroom } else { Bytes::ZERO },
        xoff_frames: if lossless {
            value(keys.xoff_frames.as_ref(), frames(ingress_reserve.saturating_add(xoff), smallest_frame))
        } else {
            u32::MAX
        },
        ingress_reserve,
        ingress_max: value(
            keys.ingress_max.as_ref(),
            if waits && !lossless { ingress_max } else { Bytes::MAX },
        ),
        egress_max,
        egress_max_frames: value(keys.egress_max_frames.as_ref(), frames(egress_max, smallest_out)),
        egress_reserve: reserve(keys.egress_reserve.as_ref()),
        egress_warn: value(keys.egress_warn.as_ref(), egress_xon),
        egress_xoff,
        egress_xon,
        queue: value(keys.queue.as_ref(), Default::default()),
        service: value(keys.weight.as_ref(), defaults::SERVICE),
        max_rate: keys.max_rate.as_ref().map(|rate| rate.value),
        ecn: None, // set when the rest is known
        watchdog: watchdog::settings(keys),
    }
}

/// Returns XOFF and XON at ingress. A missing one follows from the other; if both are missing, XON is the line's default.
fn watermarks(draft: &Draft<'_>, keys: &ClassKeys) -> (Bytes, Bytes) {
    let (xoff, xon) = (keys.xoff.as_ref().map(|key| key.value), keys.xon.as_ref().map(|key| key.value));
    let default = draft.line.xon();
    match (xoff, xon) {
        (Some(xoff), Some(xon)) => (xoff, xon),
        (Some(xoff), None) => (xoff, Bytes(xoff.0.div_ceil(2)).min(default)),
        (None, Some(xon)) => (defaults::xoff(xon), xon),
        (None, None) => (defaults::xoff(default), default),
    }
}

/// Returns XON and XOFF at egress. If one is missing, it follows from the other; if both are, they are the defaults.
fn egress_watermarks(draft: &Draft<'_>, keys: &ClassKeys, scale: Scale) -> (Bytes, Bytes) {
    let speed = (scale == Scale::Speed).then_some(draft.line.speed);
    let (xon, xoff) = defaults::egress_watermarks(draft.line.commit, speed);
    let given =
        (keys.egress_xon.as_ref().map(|key| key.value), keys.egress_xoff.as_ref().map(|key| key.value));
    match given {
        (Some(xon), Some(xoff)) => (xon, xoff),
        (Some(xon), None) => (xon, xoff.max(Bytes(xon.0.saturating_mul(5) / 4))),
        (None, Some(xoff)) => (xon.min(Bytes(xoff.0 / 5 * 4)), xoff),
        (None, None) => (xon, xoff),
    }
}

fn bound_at_ingress(class: Class, drafts: &[Draft<'_>], ports: &mut [[ClassSettings; CLASSES]]) {
    let index = class.index();
    for (draft, settings) in drafts.iter().zip(ports) {
        let (keys, settings) = (&draft.port.classes[index], &mut settings[index]);
        if !settings.lossless {
            settings.ingress_max =
                value(keys.ingress_max.as_ref(), defaults::lossy_ingress_max(draft.line.speed));
        }
    }
}

fn open_egress(
    class: Class,
    drafts: &[Draft<'_>],
    ports: &mut [[ClassSettings; CLASSES]],
    when_full: WhenFull,
    problems: &mut Problems,
) {
    let index = class.index();
    let inside = ports.iter().map(|classes| classes[index].ingress_most());
    let inside = inside.fold(Bytes::ZERO, Bytes::saturating_add);
    for (draft, settings) in drafts.iter().zip(ports) {
        let (keys, settings) = (&draft.port.classes[index], &mut settings[index]);
        settings.egress_max_frames = value(keys.egress_max_frames.as_ref(), u32::MAX);
        settings.egress_max = value(keys.egress_max.as_ref(), inside.saturating_add(Bytes(1)));
        let too_few = |given: &&Spanned<u32>| u64::from(given.value) < inside.0.div_ceil(FRAME_MIN);
        let bytes = keys.egress_max.as_ref().filter(|given| given.value <= inside).map(|given| given.span);
        let frames = keys.egress_max_frames.as_ref().filter(too_few).map(|given| given.span);
        for span in bytes.into_iter().chain(frames).filter(|_| when_full == WhenFull::Drop) {
            problems.push(
                Problem::warning(format!(
                    "frames of lossless class {class} may be dropped at egress to port {}",
                    draft.name
                ))
                .at(span, "less than the switch may hold in this class")
                .help(format!(
                    "all ports together can hold {} bytes of the class; leave egress_max and egress_max_frames out",
                    inside.0
                )),
            );
        }
    }
}

fn mixed(class: Class, drafts: &[Draft<'_>], problems: &mut Problems) {
    let lossy: Vec<&str> = drafts
        .iter()
        .filter(|draft| !draft.lossless.contains(class))
        .map(|draft| draft.name.as_str())
        .collect();
    if !lossy.is_empty() {
        problems.push(
            Problem::warning(format!("class {class} is lossless on some ports, but lossy on {}", names(lossy)))
                .help("frames of the class from these ports may be dropped; list the class in `lossless` of every port that carries it"),
        );
    }
}

fn check(
    draft: &Draft<'_>,
    class: Class,
    settings: &ClassSettings,
    model: MemoryModel,
    problems: &mut Problems,
) {
    let keys = &draft.port.classes[class.index()];
    let whose = format!("class {class} of port {}", draft.name);
    if let Some(key) =
        keys.max_rate.as_ref().filter(|key| key.value > draft.line.speed && draft.port.keys.speed.is_some())
    {
        problems.push(
            Problem::error(format!("`max_rate` of {whose} is more than the port's speed"))
                .at(key.span, "above the speed")
                .help(format!("the speed is {}", crate::quantity::rate(draft.line.speed))),
        );
    }
    let ascending = [
        ("egress_warn", &keys.egress_warn, settings.egress_warn),
        ("egress_xon", &keys.egress_xon, settings.egress_xon),
    ];
    for (name, key, bytes) in ascending {
        if let Some(key) = key.as_ref().filter(|_| bytes > settings.egress_xoff) {
            problems.push(
                Problem::error(format!("`{name}` of {whose} is above its `egress_xoff`"))
                    .at(key.span, format!("{} bytes", bytes.0))
                    .help(format!("`egress_xoff` is {} bytes", settings.egress_xoff.0)),
            );
        }
    }
    let longest = draft.line.longest();
    // An egress queue must stay below `egress_max`, so `egress_max` must exceed a frame.
    let least = [
        ("egress_max", &keys.egress_max, longest.saturating_add(Bytes(1))),
        ("ingress_max", &keys.ingress_max, longest),
    ];
    for (name, key, least) in least {
        if let Some(key) = key.as_ref().filter(|key| key.value < least) {
            problems.push(
                Problem::error(format!(
                    "`{name}` of {whose} is {} bytes, too little for one frame",
                    key.value.0
                ))
                .at(key.span, "less than the longest frame")
                .help(format!("the longest frame needs {} bytes", least.0)),
            );
        }
    }
    for (name, key) in [("ingress_reserve", &keys.ingress_reserve), ("egress_reserve", &keys.egress_reserve)]
    {
        let has_effect = |key: &Spanned<Bytes>| model == MemoryModel::Shared || key.value == Bytes::ZERO;
        if let Some(key) = key.as_ref().filter(|key| !has_effect(key)) {
            problems.push(
                Problem::warning(format!("`{name}` has no effect on {whose}: memory is dedicated"))
                    .at(key.span, "no effect")
                    .help("write model = \"shared\" in [memory]"),
            );
        }
    }
    if settings.lossless {
        check_lossless(draft, keys, settings, &whose, problems);
    } else {
        without_effect(keys, &whose, problems);
    }
}

fn check_lossless(
    draft: &Draft<'_>,
    keys: &ClassKeys,
    settings: &ClassSettings,
    whose: &str,
    problems: &mut Problems,
) {
    let place = keys.xon.as_ref().or(keys.xoff.as_ref());
    if let Some(place) = place.filter(|_| settings.xon > settings.xoff) {
        problems.push(
            Problem::error(format!(
                "XON of {whose} ({} bytes) is above XOFF ({} bytes)",
                settings.xon.0, settings.xoff.0
            ))
            .at(place.span, "XON above XOFF")
            .help("the class pauses at XOFF and resumes below XON: xon <= xoff"),
        );
    }
    for (name, key) in [("xoff", &keys.xoff), ("xon", &keys.xon)] {
        if let Some(key) = key.as_ref().filter(|key| key.value == Bytes::ZERO) {
            problems.push(
                Problem::error(format!("`{name}` of {whose} is 0, so the class would never resume"))
                    .at(key.span, "less than 1 byte")
                    .help("an empty queue has 0 bytes, and a class resumes below XON"),
            );
        }
    }
    too_low(draft, keys, settings, whose, problems);
    let needed = draft.headroom.total();
    if let Some(key) = keys.headroom.as_ref().filter(|key| key.value < needed) {
        problems.push(
            Problem::warning(format!(
                "headroom of {whose} is {} bytes, but {} bytes are needed",
                key.value.0, needed.0
            ))
            .at(key.span, "frames may be lost after XOFF")
            .help("leave `headroom` out to have it computed; `xoff check` prints every term"),
        );
    }
    if let Some(key) = &keys.ingress_max {
        problems.push(
            Problem::warning(format!("`ingress_max` has no effect on {whose}, which is lossless"))
                .at(key.span, "no effect")
                .help("a lossless class holds at most xoff + headroom"),
        );
    }
}

/// Reports thresholds that lose no frame, but leave the line idle or paused.
fn too_low(
    draft: &Draft<'_>,
    keys: &ClassKeys,
    settings: &ClassSettings,
    whose: &str,
    problems: &mut Problems,
) {
    let (longest, commit) = (draft.line.longest(), draft.line.commit);
    let beyond_zero = |key: &&Spanned<Bytes>| key.value > Bytes::ZERO;
    if let Some(key) = keys.xoff.as_ref().filter(beyond_zero).filter(|key| key.value < longest) {
        problems.push(
            Problem::note(format!(
                "XOFF of {whose} is {} bytes, less than its longest frame ({} bytes): each such frame pauses its sender",
                key.value.0, longest.0
            ))
            .at(key.span, "less than a frame")
            .help("no frame is lost, but the line is paused most of the time; leave `xoff` out to have it computed"),
        );
    } else if let Some(key) = keys.xon.as_ref().or(keys.xoff.as_ref()).filter(beyond_zero)
        && settings.xon < commit
    {
        problems.push(
            Problem::note(format!(
                "XON of {whose} is {} bytes, less than a port commits to its driver ({} bytes)",
                settings.xon.0, commit.0
            ))
            .at(key.span, "less than `commit`")
            .help(
                "no frame is lost, but the line may run dry before the sender resumes, and a stalled device \
                 pauses senders to other ports, too; leave `xon` out to have it computed, or write a smaller `commit` for the port",
            ),
        );
    }
}

fn without_effect(keys: &ClassKeys, whose: &str, problems: &mut Problems) {
    let frames = keys.xoff_frames.as_ref().map(|key| key.span);
    let bytes = [("xoff", &keys.xoff), ("xon", &keys.xon), ("headroom", &keys.headroom)];
    let bytes = bytes.map(|(name, key)| (name, key.as_ref().map(|key| key.span)));
    for (name, span) in bytes.into_iter().chain([("xoff_frames", frames)]) {
        if let Some(span) = span {
            problems.push(
                Problem::warning(format!("`{name}` has no effect on {whose}, which is lossy"))
                    .at(span, "no effect")
                    .help("add the class to `lossless` of the port"),
            );
        }
    }
}

fn expectations(document: &Document, drafts: &[Draft<'_>], problems: &mut Problems) {
    let accounting = value(document.switch.accounting.as_ref(), Accounting::default());
    let when_full = value(document.switch.when_full.as_ref(), WhenFull::default());
    let any = drafts.iter().any(|draft| !draft.lossless.is_empty());
    if let Some(key) = document
        .switch
        .accounting
        .as_ref()
        .filter(|_| any && accounting == Accounting::UntilForwarded && when_full == WhenFull::Drop)
    {
        problems.push(
            Problem::warning("frames count at their ingress only until they reach an egress queue, so XOFF at ingress does not protect that queue")
                .at(key.span, "egress queues may overflow")
                .help("write when_full = \"stop\", or accounting = \"until-transmitted\""),
        );
    }
    for draft in drafts.iter().filter(|draft| !draft.lossless.is_empty()) {
        if let Some(key) = draft.port.keys.pause.as_ref().filter(|key| key.value == Pause::Ignore) {
            problems.push(
                Problem::warning(format!("port {} sends no pause frames, so its lossless classes {} may lose frames", draft.name, listed(draft)))
                    .at(key.span, "no pause frames")
                    .help("frames beyond xoff + headroom are dropped; if you accept that, write lossless = [] for the port"),
            );
        }
    }
}

fn listed(draft: &Draft<'_>) -> impl Display {
    let classes: Vec<String> = draft.lossless.iter().map(|class| class.to_string()).collect();
    classes.join(", ")
}
