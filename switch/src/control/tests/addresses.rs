use super::*;
use crate::control::status::FdbEntry;

#[test] // proves: http
fn address_pages_have_each_address_once_in_order() {
    let (view, inbox) = view();
    let table = table(100_000);
    let worker = answer_with(inbox, table.clone());
    let control = serve(&view);
    let page = |query: &str| -> AddressPage {
        let (code, text) = get(&control, &format!("/addresses{query}"));
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(page("").addresses.len(), 1_000);
    let mut met = Vec::new();
    let mut next = Some(String::new());
    while let Some(after) = next {
        let after = if after.is_empty() { after } else { format!("&after={after}") };
        let page = page(&format!("?limit=9999{after}"));
        met.extend(page.addresses);
        next = page.next;
    }
    let name = |address: &Address| {
        let port = ["left", "right"][address.port.index()].to_owned();
        FdbEntry { vid: address.vid, mac: address.mac.to_string(), port, group: None, fixed: address.fixed }
    };
    let mut expected: Vec<_> = table.iter().map(name).collect();
    expected.sort();
    assert!(met == expected, "pages have {} addresses, the table has {}", met.len(), expected.len());
    let last = page("?limit=1&after=2-ff:ff:ff:ff:ff:ff");
    assert_eq!((last.addresses.len(), last.next), (0, None));
    for (query, expected) in [
        ("?limit=0", "`limit` is \"0\", but has to be a whole number from 1 to 10000"),
        ("?limit=10001", "`limit` is \"10001\", but has to be a whole number from 1 to 10000"),
        ("?limit=-1", "`limit` is \"-1\", but"),
        ("?limit=abc", "`limit` is \"abc\", but"),
        ("?limit=", "`limit` is \"\", but"),
        ("?limit=1.5", "`limit` is \"1.5\", but"),
        ("?limit=99999999999999999999999", "`limit` is \"99999999999999999999999\", but"),
        ("?after=x", "`after` is \"x\", but has to be `next` of an earlier page"),
        ("?from=1", "the parameters `after` and `limit`, each once at most; for example /addresses?after="),
        ("?limit=1&limit=2", "each once at most"),
    ] {
        let (code, text) = get(&control, &format!("/addresses{query}"));
        assert_eq!(code, 400, "{query}");
        assert!(text.contains(expected), "{text}");
    }
    stop_worker(&view, worker);
    assert_eq!(get(&control, "/addresses"), (503, "worker 0 has ended\n".into()));
}
