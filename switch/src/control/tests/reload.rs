use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::PortId;

use super::*;

#[test] // proves: reload
fn reload_is_refused_for_foreign_host_name_or_without_file() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let url = format!("http://{}/reload", control.address().unwrap());
    let put = |host: &str, body: &str| {
        let request = ureq::put(&url).header("Host", host).config().http_status_as_error(false).build();
        let mut answer = request.send(body).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    let (code, text) = put("localhost", "{}");
    assert_eq!(
        (code, text.as_str()),
        (409, "this switch was started without a configuration file, so nothing can be reloaded\n")
    );
    assert_eq!(put("localhost", "").0, 409);
    assert_eq!(put("rebound.example", "{}").0, 403);
    let (code, text) = put("localhost", "{\"dry\": 1}");
    assert!(code == 400 && text.contains("send {} or {\"dry_run\": true}"), "{code}: {text}");
}

#[test] // proves: verdict
fn loss_before_reload_counts_if_its_class_was_lossless_then() {
    let (view, _inbox) = view();
    let lossless = |class: usize, is_lossless: bool| {
        let mut settings = (*view.settings()).clone();
        settings.ports[0].classes[class].lossless = is_lossless;
        settings
    };
    let change = |settings: SwitchSettings| {
        let was = view.settings();
        view.books.closed(&view.counters, &was, &settings);
        view.books.opened(&view.counters, &was, &settings);
        view.configured.set(settings);
    };
    let lost = || snapshot(&view, &[]).verdict.lossless_lost;
    let before = lost();
    let drop_one =
        || view.counters.class(PortId(0), Class::ALL[5]).drops[DropReason::EgressFull.index()].add(1);
    drop_one();
    assert_eq!(lost(), before, "loss of a lossy class counts");
    change(lossless(5, true));
    assert_eq!(lost(), before, "loss from the time as a lossy class counts");
    drop_one();
    assert_eq!(lost(), before + 1);
    change(lossless(5, false));
    drop_one();
    assert_eq!(lost(), before + 1, "reload to a lossy class changed the number of lost frames");
    change(lossless(5, true));
    assert_eq!(lost(), before + 1);
}

#[test]
fn minimum_free_headroom_includes_formerly_lossless_classes() {
    let (view, _inbox) = view();
    let least = || snapshot(&view, &[]).verdict.headroom_free_min_bytes;
    let before = least();
    assert_eq!(
        before,
        view.headroom_free(PortId(0), Class::ALL[3]),
        "minimum is not that of the port with less headroom"
    );
    let was = view.settings();
    let mut settings = (*was).clone();
    settings.ports[0].classes.iter_mut().for_each(|class| class.lossless = false);
    view.books.headroom_closed(&view.counters, &was, &settings);
    view.configured.set(settings.clone());
    assert_eq!(least(), before);
    view.books.headroom_closed(&view.counters, &settings, &settings);
    assert_eq!(least(), before);
}
