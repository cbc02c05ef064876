#!/bin/sh
# In the place of a Python that judges: `-m pytest` takes pytest from where Python has it, not from the folder of the agent.
here=${0%/*}
name=${0##*/}
real=
IFS=:
for folder in $PATH; do
    if [ "$folder" != "$here" ] && [ -x "$folder/$name" ]; then
        real=$folder/$name
        break
    fi
done
unset IFS
if [ -z "$real" ]; then
    echo "$name: not found" >&2
    exit 127
fi
if [ "$1" = -m ]; then
    case $2 in
    pytest | unittest)
        module=$2
        shift 2
        exec "$real" -c "
import sys
sys.path[:] = [each for each in sys.path if each]
import importlib.util, runpy
if importlib.util.find_spec('$module') is None:
    sys.exit(sys.executable + ': No module named $module')
sys.path.append('')
runpy.run_module('$module', run_name='__main__', alter_sys=True)" "$@"
        ;;
    esac
fi
exec "$real" "$@"
