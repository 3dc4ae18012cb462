#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: status

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

/// Runs `command` against a server that always replies with `body`, with all proxy variables set to a
/// closed port.
fn run_against(command: &[&str], body: &'static str) -> Output {
    run_command_against(|xoff, url| xoff.args(command).args(["--url", url]), body)
}

fn run_command_against(
    command: impl for<'a> FnOnce(&'a mut Command, &'a str) -> &'a mut Command,
    body: &'static str,
) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let switch = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let len = client.read(&mut request).unwrap();
        write!(
            client,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        String::from_utf8_lossy(&request[..len]).into_owned()
    });
    let mut xoff = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command(xoff.env_remove("XOFF_URL"), &url);
    for proxy in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"] {
        xoff.env(proxy, "http://127.0.0.1:1");
    }
    for exception in ["no_proxy", "NO_PROXY"] {
        xoff.env_remove(exception);
    }
    let output = xoff.output().unwrap();
    if output.status.success() {
        assert!(switch.join().unwrap().starts_with("GET /"));
    }
    output
}

#[test]
fn client_commands_ignore_closed_output_pipe() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output =
        run_command_against(|xoff, url| xoff.args(["status", "--json", "--url", url]).stdout(writer), "{}");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn status_and_policy_commands_ignore_proxy_settings() {
    let output = run_against(&["status", "--json"], "{}");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"{}\n");
    let names = r#"["pfc","pfc","pfc","ofc","pfc","pfc","pfc","pfc"]"#;
    let output = run_against(&["policy"], names);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("class 3  ofc"), "{output:?}");
}

#[test]
fn url_option_overrides_environment_variable_xoff_url() {
    const CLOSED: &str = "http://127.0.0.1:1";
    let names = r#"["pfc","pfc","pfc","ofc","pfc","pfc","pfc","pfc"]"#;
    let mut commands = vec![(&["status", "--json"][..], "{}"), (&["policy"], names)];
    if cfg!(feature = "nic") {
        commands.push((&["nic", "status", "--json"], "{}"));
    }
    for (command, body) in commands {
        let output = run_command_against(|xoff, url| xoff.args(command).env("XOFF_URL", url), body);
        assert!(output.status.success(), "{command:?}: {output:?}");
        let output = run_command_against(
            |xoff, url| xoff.args(command).args(["--url", url]).env("XOFF_URL", CLOSED),
            body,
        );
        assert!(output.status.success(), "{command:?}: {output:?}");
    }
    let schema = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["status", "schema"])
        .env("XOFF_URL", CLOSED)
        .output()
        .unwrap();
    assert!(schema.status.success(), "{schema:?}");
}
