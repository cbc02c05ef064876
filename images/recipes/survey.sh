# What a base image is: one "key value" line each. Runs in a container of the base; reads names on stdin.
. /etc/os-release 2>/dev/null
echo "id ${ID:-unknown}"
echo "codename ${VERSION_CODENAME:-unknown}"
echo "name ${PRETTY_NAME:-unknown}"
for tool in apt-get python3 sh tar timeout; do
  command -v "$tool" > /dev/null 2>&1 && echo "tool $tool"
done
for library in myhostname unknown; do
  ls /usr/lib/*/"libnss_$library.so.2" > /dev/null 2>&1 && echo "names libnss-$library"
done
if command -v python3 > /dev/null 2>&1; then
  python3 -I -c 'import sys, platform
print("python", "%d.%d" % sys.version_info[:2])
print("libc", *platform.libc_ver())'
fi
while read -r kind name; do
  case $kind in
    command) command -v "$name" > /dev/null 2>&1 && echo "has command $name" ;;
    module) python3 -I -c "import $name" > /dev/null 2>&1 && echo "has module $name" ;;
  esac
done
exit 0
