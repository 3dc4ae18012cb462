// Tests for SPECIFICATION.md: experiments

use std::iter;

use super::*;

fn all() -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS.iter().flat_map(|of| iter::once(of).chain(of.routed))
}

fn request(policy: &str, given: &[&str]) -> Request {
    let given = given.iter().map(|text| text.parse().unwrap()).collect();
    Request { given, ..Request::new(vec![Variant::find(policy).unwrap()], BitRate::from_mbps(100)) }
}

fn check(experiment: &str, given: &[&str]) -> Result<(), RequestError> {
    Experiment::find(experiment).unwrap().check(&request("pfc", given), &mut |_| ())
}

#[test]
fn experiment_names_are_unique() {
    for experiment in all() {
        assert_eq!(all().filter(|other| other.name == experiment.name).count(), 1);
        assert_eq!(experiment.default_policies().len(), experiment.policies.len(), "{}", experiment.name);
        assert_ne!(experiment.name, "list", "that lists them");
    }
}

#[test] // proves: experiments, cascade
fn every_policy_runs_in_each_experiment_or_is_refused() {
    for experiment in all() {
        for variant in VARIANTS {
            // Experiments with one switch refuse OFC and GFC, which act as plain PFC there.
            let trunks = ["cascade", "cascade --routed", "ofc-fig1", "deadlock", "balance"];
            let has_trunks = trunks.contains(&experiment.name);
            let forwarded = experiment.name == "shared-memory" && variant.name.starts_with("qcn-ingress");
            let is_twin = experiment.twin(variant).is_some();
            let refused = variant.is_for_trunks() && !has_trunks || forwarded || is_twin;
            let what = format!("{} {}", experiment.name, variant.name);
            assert_eq!(experiment.fits(variant, None).is_err(), refused, "{what}");
            let live = [*LINES.start(), BitRate::from_mbps(100), *LINES.end()].map(Line::from);
            let simulated = [*SIMULATED_LINES.start(), BitRate::from_gbps(10), *SIMULATED_LINES.end()];
            let simulated =
                simulated.map(Line::simulated).into_iter().filter(|_| experiment.simulates().is_ok());
            for line in live.into_iter().chain(simulated) {
                let request = Request::new(Vec::new(), line);
                let Ok(configs) = experiment.configs(variant, &request, &Machine::default()) else {
                    assert!(refused, "{what} at {line:?}");
                    continue;
                };
                let warnings: Vec<_> = configs.iter().flat_map(|config| &config.warnings).collect();
                assert!(!experiment.promises(variant) || warnings.is_empty(), "{what}: {warnings:?}");
            }
        }
        assert!(experiment.default_policies().iter().all(|policy| experiment.fits(policy, None).is_ok()));
    }
}

#[test]
fn experiment_finds_policies_with_identical_settings() {
    let twins = |name: &str| -> Vec<_> {
        let experiment = Experiment::find(name).unwrap();
        VARIANTS.iter().filter_map(|of| Some((of.name, experiment.twin(of)?))).collect()
    };
    assert_eq!(twins("incast"), []);
    assert_eq!(twins("ofc-fig1"), [("pfc-control", "pfc")]);
    assert_eq!(twins("qcn-fanin"), [("pfc-control", "pfc")]);
    let of_shared_memory = twins("shared-memory");
    assert!(of_shared_memory.contains(&("pfc", "pfc-wstop")), "{of_shared_memory:?}");
    assert!(of_shared_memory.contains(&("capfc-stop-max", "capfc-max-wstop")), "{of_shared_memory:?}");
}

#[test]
fn error_for_refused_policy_has_reason_and_alternatives() {
    let refused = |experiment: &str, policy: &str| {
        let policy = Variant::find(policy).unwrap();
        Experiment::find(experiment).unwrap().fits(policy, None).unwrap_err()
    };
    for (experiment, policy) in [("incast", "ofc"), ("victim", "gfc"), ("two-classes", "ofc-pfc-middle")] {
        let refused = refused(experiment, policy);
        assert!(refused.cause.contains("only between switches that support it"), "{refused}");
        assert_eq!(refused.other_experiments, "cascade, ofc-fig1, deadlock, balance");
        assert!(refused.allowed.contains("capfc-stop-max") && !refused.allowed.contains("ofc"));
    }
}

#[test]
fn user_settings_reach_every_switch() {
    let experiment = Experiment::find("ofc-fig1").unwrap();
    let pfc = Variant::find("pfc").unwrap();
    let fine = request("pfc", &["class.3.xoff=80KB"]);
    let configs = experiment.configs(pfc, &fine, &Machine::default()).unwrap();
    assert_eq!(configs.len(), 3);
    assert!(configs.iter().all(|of| of.switch.ports[0].classes[3].xoff.0 == 80_000));
    experiment.check(&fine, &mut |line| panic!("{line}")).unwrap();
    let problem_text = |text: &str| match check("ofc-fig1", &[text]).unwrap_err() {
        RequestError::Fabric(FabricError::Config(ConfigError::Invalid(invalid))) => {
            let problem = &invalid.problems()[0];
            assert!(invalid.to_string().contains("under pfc: 1 error"), "{invalid}");
            format!("{problem} / {}", problem.help.clone().unwrap_or_default())
        }
        other => panic!("{other}"),
    };
    let message = problem_text("class.3.xof=80KB");
    assert!(message.contains("`xof` is not a key in [class.3]"), "{message}");
    assert!(message.contains("did you mean `xoff`?"), "{message}");
    let message = problem_text("class.3.xoff=30 ells");
    assert!(message.contains("`xoff` is \"30 ells\""), "{message}");
}

#[test] // proves: cascade
fn setting_that_an_experiment_cannot_use_is_refused() {
    let routed = Experiment::find("cascade").unwrap().routed.unwrap();
    for key in ["defaults.trust=pcp", "defaults.dscp_map={ 8 = 2 }", "trunk.rewrite_dscp={ 1 = 9 }"] {
        let message = routed.check(&request("pfc", &[key]), &mut |_| ()).unwrap_err().to_string();
        assert!(message.contains("cannot be set with routers: DSCP 8 has to be class 1"), "{message}");
    }
    assert!(check("cascade", &["defaults.trust=dscp"]).is_ok(), "a bridged experiment refuses the key");
    let message = check("incast", &["trunk.trust=pcp"]).unwrap_err();
    assert_eq!(message.to_string(), "`trunk.trust` sets ports between switches, but `incast` has none");
}

#[test]
fn user_setting_of_a_class_also_changes_identical_classes() {
    let experiment = Experiment::find("shared-memory").unwrap();
    let policy = Variant::find("pfc-wstop").unwrap();
    let given = |texts: &[&str]| request("pfc-wstop", texts);
    let xoff = |request: &Request| {
        let configs = experiment.configs(policy, request, &Machine::default()).unwrap();
        [2, 3, 4].map(|class| configs[0].switch.ports[0].classes[class].xoff.0)
    };
    let all = given(&["class.3.xoff=25KB"]);
    assert_eq!(xoff(&all), [25_000; 3]);
    let expected = "`class.3.xoff = 25KB` sets several keys, because these classes have identical settings: \
                    class.3.xoff, class.2.xoff, class.4.xoff";
    assert_eq!(experiment.reaches(&all), [expected]);
    let but_one = given(&["class.4.xoff=24KB", "class.3.xoff=25KB"]);
    assert_eq!(xoff(&but_one), [25_000, 25_000, 24_000]);
    assert_eq!(experiment.reaches(&given(&["class.4.xoff=24KB"])), [""; 0]);
    let mut lines = Vec::new();
    let refused = given(&["class.3.xoff=25KB", "class.3.xon=26KB"]);
    experiment.check(&refused, &mut |line| lines.push(line.to_owned())).unwrap_err();
    assert_eq!(lines[0], expected);
}

#[test]
fn warnings_about_user_settings_appear_once() {
    let experiment = Experiment::find("incast").unwrap();
    let policies = ["pfc", "capfc-stop-max", "capfc-stop-calibrate"].map(|name| Variant::find(name).unwrap());
    let check = |given: &[&str]| {
        let mut lines = Vec::new();
        let request = Request { policies: policies.to_vec(), ..request("pfc", given) };
        experiment.check(&request, &mut |line| lines.push(line.to_owned())).unwrap();
        lines
    };
    assert_eq!(check(&[]), [""; 0]);
    let all = check(&["class.3.headroom=1KB"]);
    assert!(all[0].starts_with("warning: headroom of class 3 of port "), "{all:?}");
    let some = check(&["class.3.egress_max=20KB", "switch.when_full=stop"]);
    assert_eq!(some.iter().filter(|line| line.contains("never finds class 3")).count(), 2, "{some:?}");
}

#[test]
fn key_that_the_user_sets_twice_is_refused() {
    check("incast", &["class.3.xoff=80KB", "class.3.xon=60KB"]).unwrap();
    for again in ["class.3.xoff=90KB", "class.3={ xoff = 80000 }"] {
        let twice = check("incast", &["class.3.xoff=80KB", "pipeline.rate=1Mpps", again]);
        let twice = format!("{:?}", twice.unwrap_err());
        assert!(twice.contains("--set gives `class.3.xoff` twice"), "{twice}");
    }
}

#[test]
fn invalid_switch_keys_are_refused() {
    let refused = |experiment: &str, keys: &[&str]| format!("{:?}", check(experiment, keys).unwrap_err());
    let workers = refused("incast", &["switch.workers=nonsense"]);
    assert!(workers.contains("workers"), "{workers}");
    let own = ["class.2={ xoff = \"nonsense\" }", "class.3={ xoff = \"40KB\" }"];
    let own = refused("two-classes", &own);
    assert!(own.contains("nonsense"), "{own}");
}

#[test]
fn seed_of_each_further_run_is_one_higher() {
    let experiment = Experiment::find("qcn-fanin").unwrap();
    let variant = Variant::find("qcn-ingress-occupancy").unwrap();
    let request = Request { seed: 7, ..request(variant.name, &[]) };
    let settings = [1, 2].map(|run| experiment.run_settings(variant, &request, run));
    assert_eq!(settings.each_ref().map(|of| of.seed), [7, 8]);
    assert_eq!(settings.each_ref().map(|of| of.reaction.unwrap().seed), [7, 8]);
    let configs = experiment.configs(variant, &request, &Machine::default()).unwrap();
    assert_eq!(configs[0].switch.qcn.seed, 7);
    let most = Request { seed: u64::MAX, ..request };
    experiment.configs(variant, &most, &Machine::default()).unwrap();
}

#[test]
fn runs_of_compared_policies_alternate() {
    let policies = vec![&VARIANTS[0], &VARIANTS[1]];
    let request = Request { runs: 2, ..Request::new(policies, BitRate::from_mbps(100)) };
    let mut order = Vec::new();
    let measured = compare::in_turns(&EXPERIMENTS[0], &request, &mut |_| (), |setup| {
        order.push(setup.settings.policy);
        Ok(order.len())
    });
    let counts: Vec<_> = measured.into_iter().flatten().map(|(_, results)| results).collect();
    assert_eq!(counts, [[1, 3], [2, 4]]);
}
