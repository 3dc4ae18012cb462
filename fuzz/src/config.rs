use miette::GraphicalReportHandler;
use xoff_config::{Config, ConfigError, Machine};

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Config::from_toml("fuzz.toml", &text, Machine::default()) {
        Ok(config) => follow(&config),
        Err(error) => {
            if let ConfigError::Invalid(invalid) = &error {
                assert!(!invalid.problems().is_empty());
            }
            let mut report = String::new();
            GraphicalReportHandler::new()
                .render_report(&mut report, &error)
                .expect("error cannot be formatted");
            assert!(!report.contains("OutOfBounds"), "{report}");
        }
    }
}

fn follow(config: &Config) {
    let ports = config.switch.ports.len();
    assert!((1..=256).contains(&ports));
    assert_eq!((config.shell.ports.len(), config.headroom.len()), (ports, ports));
    let workers = config.workers(&[0, 1, 2, 3]);
    let mut owned: Vec<usize> =
        workers.iter().flat_map(|worker| &worker.ports).map(|port| port.index()).collect();
    owned.sort_unstable();
    assert_eq!(owned, (0..ports).collect::<Vec<_>>(), "each port must have exactly one worker");
    assert!(config.memory(&workers, &[]).total.0 > 0);
    for (port, shell) in config.switch.ports.iter().zip(&config.shell.ports) {
        let rings = [shell.rings.fill, shell.rings.rx, shell.rings.tx, shell.rings.completion];
        assert!(rings.iter().all(|ring| ring.is_power_of_two()));
        assert!(port.refresh < port.speed.time_of_quanta(port.pause_time));
        for class in port.classes.iter().filter(|class| class.lossless) {
            assert!(class.xon <= class.xoff);
        }
    }
}
