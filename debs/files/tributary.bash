# shellcheck shell=bash
# Completes the commands of tributary(8), and their options.
_tributary() {
    local word=${COMP_WORDS[COMP_CWORD]} choices=
    # Behind --remote HOST it goes on as from the beginning.
    if [ "${COMP_WORDS[1]}" = --remote ] && [ "$COMP_CWORD" -gt 2 ]; then
        local COMP_WORDS=("${COMP_WORDS[0]}" "${COMP_WORDS[@]:3}") COMP_CWORD=$((COMP_CWORD - 2))
    fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        choices="status links devices sessions rules classes limit explain link routers enrol rotate revoke forward accounts doctor monitor plan check try console version"
        choices+=" --remote"
    elif [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" = console ]; then
        choices="login password token tokens logout"
    elif [[ $word == -* ]]; then
        choices=$(tributary "${COMP_WORDS[1]}" --help 2>/dev/null | grep -o -- '--[a-z-]*')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -F _tributary tributary
