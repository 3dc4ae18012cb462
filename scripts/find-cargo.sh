# Source this file to put cargo on the PATH under sudo: rustup's toolchain is in the home of the calling user. Builds by
# root use root's ~/.cargo, so that root owns no file in the user's home.
if ! command -v cargo >/dev/null && [ -n "${SUDO_USER-}" ]; then
    caller_home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    if [ -x "$caller_home/.cargo/bin/cargo" ]; then
        export PATH="$caller_home/.cargo/bin:$PATH" RUSTUP_HOME="${RUSTUP_HOME-$caller_home/.rustup}"
    fi
fi
