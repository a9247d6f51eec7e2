# shellcheck shell=bash
# Completes the commands of tributary(8), and their options.
_tributary() {
    local word=${COMP_WORDS[COMP_CWORD]} choices=
    if [ "$COMP_CWORD" -eq 1 ]; then
        choices="status links sessions rules classes limit explain link routers enrol rotate revoke forward doctor monitor plan check try console version"
    elif [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" = console ]; then
        choices="login password token tokens logout"
    elif [[ $word == -* ]]; then
        choices=$(tributary "${COMP_WORDS[1]}" --help 2>/dev/null | grep -o -- '--[a-z-]*')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -F _tributary tributary
