#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: own-policy

use std::sync::{Arc, Mutex};

use xoff_config::{Config, ConfigError, Machine, OwnPolicy, Parameters, Problem};
use xoff_flow_control::policy::CustomPolicy;
use xoff_flow_control::settings::{PolicyFactory, PolicyKind, SwitchSettings};
use xoff_wire::units::{Bytes, Class, Nanos};

const PORTS: &str = "[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\n[[port]]\nname = \"b\"\ndevice = \"y\"\nspeed = \"1G\"\n";

/// Custom policy with a parameter of each kind; it refuses class 6.
#[derive(Clone, Debug, Default, PartialEq)]
struct Picky {
    part: Option<f64>,
    steps: Option<i64>,
    alone: Option<bool>,
    mode: Option<String>,
    above: Option<Bytes>,
    every: Option<Nanos>,
}

impl Picky {
    fn read(parameters: &mut Parameters<'_>) -> Picky {
        let picky = Picky {
            part: parameters.number("part", 0.5..=2.0),
            steps: parameters.integer("steps", -3..=8),
            alone: parameters.boolean("alone"),
            mode: parameters.text("mode"),
            above: parameters.bytes("above"),
            every: parameters.time("every", Nanos::from_micros(1)..=Nanos::from_secs(1)),
        };
        if picky.mode.as_deref().is_some_and(|mode| mode != "fair") {
            parameters.refuse("mode", "\"fair\"");
        }
        picky
    }
}

impl PolicyFactory for Picky {
    fn policy(&self, _: Class, _: &SwitchSettings) -> Box<dyn CustomPolicy> {
        unreachable!("no switch is made here")
    }

    fn needs_one_worker(&self) -> bool {
        self.alone.unwrap_or(false)
    }

    fn misfit(&self, class: Class, _: &SwitchSettings) -> Option<String> {
        (class.get() == 6).then(|| "another class".into())
    }
}

fn read(text: &str) -> (Result<Config, ConfigError>, Option<Picky>) {
    let parsed = Arc::new(Mutex::new(None));
    let own = OwnPolicy::new("picky", {
        let parsed = Arc::clone(&parsed);
        move |parameters| {
            let picky = Picky::read(parameters);
            parsed.lock().unwrap().replace(picky.clone());
            picky
        }
    });
    let machine = Machine { own_policy: Some(own), ..Machine::default() };
    let config = Config::from_toml("test.toml", &format!("{text}{PORTS}"), machine);
    let picky = parsed.lock().unwrap().take();
    (config, picky)
}

fn errors(config: Result<Config, ConfigError>) -> Vec<Problem> {
    let Err(ConfigError::Invalid(invalid)) = config else { panic!("it is fine") };
    invalid.problems().to_vec()
}

#[test]
fn custom_policy_gets_parameters_of_every_type() {
    let text = "[policy.custom]\npart = 1\nsteps = -3\nalone = true\nmode = \"fair\"\nabove = \"64KiB\"\nevery = \"20us\"\n";
    let (config, picky) = read(text);
    let expected = Picky {
        part: Some(1.0),
        steps: Some(-3),
        alone: Some(true),
        mode: Some("fair".into()),
        above: Some(Bytes(65_536)),
        every: Some(Nanos::from_micros(20)),
    };
    assert_eq!(picky, Some(expected));
    assert!(config.unwrap().switch.policy.custom.is_some(), "an unused custom policy is dropped");
    let (config, picky) = read("");
    assert_eq!(picky, Some(Picky::default()), "the policy has no defaults");
    assert_eq!(config.unwrap().switch.policies, [PolicyKind::Pfc; 8]);
}

#[test]
fn invalid_parameters_of_custom_policy_are_refused() {
    let text = "[policy.custom]\npart = 2.1\nsteps = 9\nalone = 1\nmode = \"fast\"\nabove = \"much\"\nevery = \"2s\"\nstep = 3\n";
    let errors = errors(read(text).0);
    let places: Vec<_> = errors.iter().map(|problem| problem.position.unwrap().0).collect();
    assert_eq!(places, [2, 3, 4, 5, 6, 7, 8], "{errors:#?}");
    let words = [
        "`part` is 2.1, but has to be a number from 0.5 to 2",
        "a whole number from -3 to 8",
        "`alone` is 1, but has to be true or false",
        "`mode` is \"fast\", but has to be \"fair\"",
        "a size up to",
        "a time from \"1us\" to \"1s\"",
        "`step` is not a key in [policy.custom]",
    ];
    for (problem, words) in errors.iter().zip(words) {
        assert!(problem.message.contains(words), "{words:?} is missing in {:?}", problem.message);
    }
    assert_eq!(errors[6].help.as_deref(), Some("did you mean `steps`?"));
}

#[test]
fn custom_policy_may_be_class_policy_and_shadow_policy() {
    let text = "[switch]\npolicy = { 3 = \"custom\" }\nshadow = [\"pfc\", \"custom\"]\n";
    let switch = read(text).0.unwrap().switch;
    assert_eq!((switch.policies[3], switch.policies[4]), (PolicyKind::Custom, PolicyKind::Pfc));
    assert_eq!(switch.shadows, [PolicyKind::Pfc, PolicyKind::Custom]);
    assert_eq!(switch.policy.named("custom"), Some(PolicyKind::Custom));
}

#[test]
fn custom_policy_without_its_prerequisites_is_refused() {
    let chosen = |more: &str| read(&format!("[switch]\nworkers = 2\npolicy = \"pfc\"\n{more}")).0;
    assert!(chosen("shadow = [\"custom\"]\n").is_ok());
    let alone = errors(chosen("shadow = [\"custom\"]\n[policy.custom]\nalone = true\n"));
    assert_eq!(alone[0].message, "policy \"custom\" needs one worker");
    let six = errors(read("[switch]\npolicy = { 6 = \"custom\" }\n").0);
    assert_eq!(six[0].message, "`policy = \"custom\"` needs another class in class 6");
    assert_eq!(six[0].position.unwrap().0, 2);
}

#[test]
fn error_for_missing_custom_policy_names_alternatives() {
    let texts = [
        "[switch]\npolicy = \"custom\"\n",
        "[switch]\nshadow = [\"custom\"]\n",
        "[policy.custom]\npart = 1\n",
    ];
    for text in texts {
        let plain = Config::from_toml("test.toml", &format!("{text}{PORTS}"), Machine::default());
        let errors = errors(plain);
        assert_eq!(errors.len(), 1, "{errors:#?}");
        let help = errors[0].help.clone().unwrap();
        assert!(errors[0].message.contains("this program has none"), "{}", errors[0].message);
        assert!(help.contains("docs/policies/own.md"), "{help}");
        assert_eq!(help.contains("\"pfc\", \"capfc-stop-max\""), text.starts_with("[switch]"), "{help}");
    }
}

#[test] // proves: reload
fn reload_detects_changed_parameters_of_custom_policy() {
    let config = |part: &str| read(&format!("[policy.custom]\npart = {part}\n")).0.unwrap();
    let (_, none) = config("1").changes(1, config("1.0"));
    assert!(none.is_empty(), "{none:?}");
    let (_, of) = config("1").changes(1, config("2"));
    let [change] = of.live.as_slice() else { panic!("{of:?}") };
    assert!(change.what == "policy.custom" && change.after.contains("part: Some(2.0)"), "{change:?}");
}
