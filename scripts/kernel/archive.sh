# SPDX-License-Identifier: GPL-2.0
#
# Kernels in Debian's archives: which there are, and how to fetch one. Sourced by kernel.sh.
#
# A mirror may lag behind, so that its lists have expired; their signature is checked all the same.
#
# An archive is called by the name of its release (trixie-backports, sid) and read with apt in the toolchain root, with
# lists and sources of our own: the root itself stays as it was made.

# archive_apt TOOL ARGUMENT...: apt of the archive $ARCHIVE, for the architecture $ARCH.
archive_apt() {
	local tool=$1 dir=$CACHE/apt-$ARCHIVE-$ARCH
	shift
	TOOLCHAIN=$SUITE "$SRC/scripts/root/in-root.sh" "$tool" \
		-o APT::Architecture="$ARCH" -o APT::Architectures="$ARCH" \
		-o Dir::State::lists="$dir/lists" -o Dir::Cache::archives="$dir" \
		-o Dir::Cache::pkgcache="$dir/packages.bin" -o Dir::Cache::srcpkgcache= \
		-o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false "$@" </dev/null
}

# archive_update: fetches the package lists. One process at a time: apt fails if another holds its lock.
archive_update() (
	dir=$CACHE/apt-$ARCHIVE-$ARCH
	lock "apt-$ARCHIVE-$ARCH"
	mkdir -p "$dir/lists/partial" "$dir/partial"
	# From where the root itself came.
	sed -n "s|^deb \(\[[^]]*\] \)\?\([^ ]*\) $SUITE .*|deb \1\2 $ARCHIVE main|p" \
		"$(TOOLCHAIN=$SUITE "$SRC/scripts/root/toolchain.sh")/etc/apt/sources.list" |
		sed -n 1p >"$dir/sources.list"
	[ -s "$dir/sources.list" ] || die "the toolchain root names no archive of $SUITE"
	say APT "package lists of $ARCHIVE ($ARCH), about 5 s"
	archive_apt apt-get -qq -o APT::Update::Error-Mode=any update >"$dir/log" 2>&1 ||
		fail "$dir/log" "cannot fetch package lists from $(<"$dir/sources.list")"
	touch "$dir/updated"
)

# archive_lists: fetches them if there are none of this day.
archive_lists() {
	[ -n "$(find "$CACHE/apt-$ARCHIVE-$ARCH/updated" -mtime -1 2>/dev/null)" ] || archive_update
}

# packages_of KVER FLAVOUR: image, modules and headers. Before 7.0 the image package has the modules, too, and what
# headers share is in packages of its own.
packages_of() {
	local common=common
	case $1-$2 in
	6.*-rt-*) common=common-rt ;;
	esac
	case $1 in
	6.*) echo "linux-headers-$1-$2 linux-headers-$1-$common linux-image-$1-$2-unsigned" ;;
	*) echo "linux-headers-$1-$2 linux-binary-unsigned-$1-$2 linux-modules-$1-$2 $(source_of "$1")" ;;
	esac
}

# source_of KVER: 7.3.4+deb13 is of series 7.3, and so is experimental's 7.3.
source_of() { sed -E 's/^([0-9]+\.[0-9]+).*/linux-source-\1/' <<<"$1"; }

# package_version KVER FLAVOUR: the version of the packages, if all are there in that same version; else nothing.
package_version() {
	local have version packages
	packages=$(packages_of "$1" "$2")
	have=$(archive_apt apt-cache madison $packages 2>/dev/null |
		awk -F' *[|] *' '{ gsub(/ /, "", $1); print $1, $2 }')
	version=$(awk -v p="linux-headers-$1-$2" '$1 == p { print $2; exit }' <<<"$have")
	[ -n "$version" ] || return 0
	[ "$(sort -u <<<"$have" | grep -Fc " $version")" -ge "$(wc -w <<<"$packages")" ] && echo "$version"
	return 0
}

# candidates SERIES FLAVOUR: the releases of a series (`7.` is one, too) that the archive names, newest first.
candidates() {
	archive_apt apt-cache pkgnames "linux-headers-$1" |
		sed -n -E "s/^linux-headers-([0-9.]+(\\+deb[0-9]+)?)-$2\$/\\1/p" | sort -rV
}

# newest SERIES FLAVOUR: the newest of them that the archive holds completely; nothing if there is none.
newest() {
	local version
	for version in $(candidates "$1" "$2"); do
		[ -n "$(package_version "$version" "$2")" ] || continue
		echo "$version"
		return
	done
}

# fetch KVER FLAVOUR DIRECTORY: the packages. The source stays in the cache, for the other flavours of the version.
fetch() {
	local version package kept
	version=$(package_version "$1" "$2")
	say FETCH "kernel $1-$2, about 10 s: $(packages_of "$1" "$2")"
	mkdir -p "$3"
	for package in $(packages_of "$1" "$2"); do
		case $package in
		linux-source-*)
			kept=$(source_package "$package" "$version")
			cp -l "$kept"/*.deb "$3/" 2>/dev/null || cp "$kept"/*.deb "$3/"
			;;
		*) download "$3" "$package=$version" ;;
		esac
	done
	case $1 in
	# The programs that a build calls are those of this machine.
	6.*) ARCH=amd64 fetch_programs "linux-kbuild-$1" "$3" ;;
	esac
}

fetch_programs() { # PACKAGE DIRECTORY
	archive_lists
	download "$2" "$1"
}

# source_package PACKAGE VERSION: prints the directory of the cache that holds it.
source_package() (
	kept=$CACHE/apt-$ARCHIVE-$ARCH/source-$2
	if [ -z "$(ls "$kept" 2>/dev/null)" ]; then
		lock "$1"
		if [ -z "$(ls "$kept" 2>/dev/null)" ]; then
			rm -rf "$kept" "$kept.new"
			mkdir "$kept.new"
			download "$kept.new" "$1=$2"
			mv "$kept.new" "$kept"
		fi
	fi
	echo "$kept"
)

download() { # DIRECTORY PACKAGE=VERSION...
	local dir=$1 log=$CACHE/download-${2%%=*}.log
	shift
	(cd "$dir" && FERROCE_BIND=$dir archive_apt apt-get -qq download "$@") >"$log" 2>&1 ||
		fail "$log" "cannot fetch $*"
}
