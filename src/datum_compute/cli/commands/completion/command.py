"""``completion SHELL``: a script for the shell, which asks ``__complete`` for candidates."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import OneOf, set_examples
from datum_compute.cli.context import Context

BASH = """\
_datumctl_compute() {
    local line word joined="" last="" typed="${COMP_LINE:0:COMP_POINT}"
    local -a words=()
    # Readline breaks words at = and :, as in --city=DFW and hello:1. Put them together again.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if (( ${#words[@]} )) && [[ -n "$joined" || "$word" == [=:]* ]] &&
            ! [[ -z "$word" && "$typed" == *[[:space:]] ]]; then
            words[${#words[@]}-1]+="$word"
        else
            words+=("$word")
        fi
        joined=""
        [[ "$word" == *[=:] ]] && joined=1
    done
    (( ${#words[@]} )) && last="${words[${#words[@]}-1]}"
    # Readline replaces only what follows the break.
    word="${COMP_WORDS[COMP_CWORD]}"
    [[ "$word" == [=:]* ]] && word="${word##*[=:]}"
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :0) ;;
            :*) compopt +o default 2>/dev/null ;;
            *)
                line="${line%%$'\\t'*}"
                [[ "$line" == "$last"* ]] && COMPREPLY+=("${line#"${last%"$word"}"}")
                ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}
complete -o default -F _datumctl_compute datumctl-compute
"""

ZSH = """\
#compdef datumctl-compute
_datumctl_compute() {
    local line bits
    local -a candidates
    while IFS= read -r line; do
        [[ "$line" == :* ]] && { bits="$line"; continue }
        candidates+=("${${line//:/\\\\:}/$'\\t'/:}")
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe 'datumctl-compute' candidates
    elif [[ "$bits" == :0 ]]; then
        compset -P '--*='
        _files
    fi
}
compdef _datumctl_compute datumctl-compute
"""

FISH = """\
function __datumctl_compute_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] 2>/dev/null)
    string match -v -r '^:' -- $found
    if contains -- :0 $found
        set -l flag (string match -r -- '^--[^=]+=' (commandline -ct))
        for path in (__fish_complete_path (string replace -r -- '^--[^=]+=' '' (commandline -ct)))
            echo "$flag$path"
        end
    end
end
complete -c datumctl-compute -f -a '(__datumctl_compute_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "completion bash", "completion zsh", "completion fish")
    shell = OneOf("SHELL", tuple(SCRIPTS))
    parser.add_argument("shell", type=shell, metavar="SHELL", help="bash, zsh or fish")


def run(context: Context) -> int:
    context.show(SCRIPTS[context.args.shell].rstrip())
    return 0
