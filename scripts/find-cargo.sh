# To be sourced: puts cargo on the PATH where sudo took it off, because a toolchain of rustup is in the home
# of the user who called. What root builds with it goes to root's own ~/.cargo, so that nothing in the
# user's home becomes root's.
if ! command -v cargo >/dev/null && [ -n "${SUDO_USER-}" ]; then
    caller_home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    if [ -x "$caller_home/.cargo/bin/cargo" ]; then
        export PATH="$caller_home/.cargo/bin:$PATH" RUSTUP_HOME="${RUSTUP_HOME-$caller_home/.rustup}"
    fi
fi
