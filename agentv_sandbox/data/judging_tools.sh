#!/bin/sh
# In the place of a program with which a task's tests download what they need: says what the layer of tools has instead.
here=/opt/agentv-judging
layer=/opt/agentv-tools
name=${0##*/}

# The program of this name that the system has.
own() {
    IFS=:
    for folder in $PATH; do
        if [ "$folder" != "$here" ] && [ "$folder" != "$here/tools/bin" ] && [ -x "$folder/$name" ]; then
            unset IFS
            exec "$folder/$name" "$@"
        fi
    done
    unset IFS
    echo "$name: not found, and there is no network" >&2
    exit 127
}

# Whether the layer has a package of Python's.
has() {
    wanted=${1%%[[=<>!~;@]*}
    wanted=$(echo "$wanted" | tr 'A-Z_.' 'a-z--')
    read -r names < "$here/tools/names"
    case " $names " in *" $wanted "*) return 0 ;; esac
    return 1
}

# A command of the environment that uv would have made.
tool() {
    while [ $# -gt 0 ]; do
        case $1 in
        -w | --with | --from | -p | --python | -i | --index-url | --index | --extra-index-url | --project | --directory | \
            --with-requirements | --extra | --group | --env-file | --python-version) shift 2 || exit 2 ;;
        --) shift; break ;;
        -*) shift ;;
        *) break ;;
        esac
    done
    [ $# -gt 0 ] || exit 2
    command=${1%%[[=<>@]*}
    case $1 in
    python | python3 | python3.*) shift; exec "$here/tools/bin/python3" "$@" ;;
    *.py) exec "$here/tools/bin/python3" "$@" ;;
    esac
    shift
    if [ -f "$layer/usr/local/bin/$command" ]; then
        exec "$here/tools/bin/python3" "$layer/usr/local/bin/$command" "$@"
    fi
    exec "$command" "$@"
}

# A folder that begins like an environment of uv's.
environment() {
    folder=.venv
    for word; do
        case $word in
        -* | 3.*) ;;
        *) folder=$word ;;
        esac
    done
    mkdir -p "$folder/bin" || exit 1
    echo "PATH=$here/tools/bin:\$PATH; export PATH" > "$folder/bin/activate"
    for program in python python3 pytest; do ln -sf "$here/tools/bin/$program" "$folder/bin/$program"; done
    exit 0
}

installer() {
    echo 'mkdir -p "${HOME:-/root}/.local/bin" && : > "${HOME:-/root}/.local/bin/env"'
}

case $name in
curl | wget)
    to=
    last=
    found=
    for word; do
        case $last in -o | --output | -O | --output-document) to=$word ;; esac
        case $word in *://astral.sh/uv/*install.sh | *://github.com/astral-sh/uv/releases/*installer.sh) found=yes ;; esac
        last=$word
    done
    [ -n "$found" ] || own "$@"
    case $to in '' | - | *://*) installer ;; *) installer > "$to" ;; esac
    ;;
apt | apt-get)
    doing=
    last=
    for word; do
        before=$last
        last=$word
        [ "$before" != -o ] && [ "$before" != -t ] || continue
        case $word in
        -*) ;;
        update | install) [ -n "$doing" ] || doing=$word ;;
        curl | wget | ca-certificates) [ "$doing" = install ] || own "$@" ;;
        *)
            [ "$doing" = install ] && dpkg-query -W "${word%%=*}" > /dev/null 2>&1 || own "$@"
            ;;
        esac
    done
    [ -n "$doing" ] || own "$@"
    ;;
pip | pip3)
    [ "$1" = install ] || own "$@"
    for word; do
        case $word in
        install | -q | --quiet | -U | --upgrade | --user | --break-system-packages | --no-cache-dir | \
            --root-user-action=* | --disable-pip-version-check) ;;
        *) has "$word" || own "$@" ;;
        esac
    done
    ;;
pytest)
    [ -f "$here/tools/of-system" ] || own "$@"
    exec python3 -m pytest "$@"
    ;;
uvx) tool "$@" ;;
uv)
    case $1 in
    run) shift; tool "$@" ;;
    tool)
        if [ "$2" = run ]; then shift 2; tool "$@"; fi
        ;;
    venv) shift; environment "$@" ;;
    --version | -V | version) echo "uv 0.9.7" ;;
    init | add | sync | lock | python | pip | cache | self) ;;
    *)
        echo "uv: $1 is not known here" >&2
        exit 2
        ;;
    esac
    ;;
esac
