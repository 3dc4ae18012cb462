use std::fmt;

#[derive(Clone, Debug)]
pub struct Config {
    switch: String,
    defaults: String,
    ports: Vec<String>,
    more: String,
}

impl Config {
    #[must_use]
    pub fn new(ports: u8, defaults: &str) -> Config {
        let port = |number| format!("name = \"p{number}\"\ndevice = \"p{number}\"\n");
        Config {
            switch: String::new(),
            defaults: defaults.to_owned(),
            ports: (1..=ports).map(port).collect(),
            more: String::new(),
        }
    }

    #[must_use]
    pub fn switch(mut self, lines: &str) -> Config {
        self.switch += lines;
        self.switch.push('\n');
        self
    }

    #[must_use]
    pub fn port(mut self, number: usize, lines: &str) -> Config {
        let port = &mut self.ports[number - 1];
        *port += lines;
        port.push('\n');
        self
    }

    #[must_use]
    pub fn more(mut self, tables: &str) -> Config {
        self.more += tables;
        self.more.push('\n');
        self
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // LLDP is off by default, because the hosts' taps would capture its frames.
        let lldp = if self.defaults.contains("lldp") { "" } else { "lldp = false\n" };
        write!(f, "[switch]\n{}\n[defaults]\n{lldp}{}\n\n{}", self.switch, self.defaults, self.more)?;
        self.ports.iter().try_for_each(|port| write!(f, "\n[[port]]\n{port}"))
    }
}
