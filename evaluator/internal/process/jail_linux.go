package process

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Jail is what a program, and all that it starts, may reach: nothing but
// these paths (Landlock) and ports, and no process outside. Where the kernel
// has no Landlock it is not locked in; see [NoLandlock].
type Jail struct {
	// Read holds files and folders that can be read and executed.
	Read []string
	// Write holds folders in which everything is allowed, and devices.
	Write []string
	// Ports are those of TCP on which it may listen and connect, whatever the
	// address; before Linux 6.7 any port where there is one here.
	Ports []uint16
	// Streams allows Unix sockets for streams. Landlock confines those with abstract names
	// from Linux 6.12 on, and none with a path: a listener there must check which process connects.
	Streams bool
	// Capabilities says that root keeps its own: the counters of a GPU are root's.
	Capabilities bool
}

// system holds what programs and libraries of a machine need: none of it is a
// user's.
var system = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/include",
	"/usr/local/bin", "/usr/local/lib", "/usr/local/lib64", "/usr/local/libexec", "/usr/local/include",
	"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
	"/dev/null", "/sys/devices/system", "/proc/cpuinfo", "/proc/meminfo",
}

// NewJail returns a jail in which the machine's own programs run and that can
// read some more. The root folder, and what holds the user's home, are left
// out.
func NewJail(read ...string) *Jail {
	j := &Jail{Read: slices.Clone(system)}
	home, _ := os.UserHomeDir()
	for _, path := range read {
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if path == "/" || home != "" && (path == home || strings.HasPrefix(home, path+"/")) || path == "/etc" || path == "/tmp" {
			continue
		}
		if !slices.Contains(j.Read, path) && !strings.Contains(path, ":") {
			j.Read = append(j.Read, path)
		}
	}
	return j
}

// With returns a jail with more paths.
func (j *Jail) With(read, write []string) *Jail {
	return &Jail{Read: slices.Concat(j.Read, read), Write: slices.Concat(j.Write, write), Ports: j.Ports, Streams: j.Streams, Capabilities: j.Capabilities}
}

// Without returns a jail in which some files cannot be read: for each folder above them it has what else is in the folder
// now. Links in it need no place of their own, since what they point to has one or none.
func (j *Jail) Without(files ...string) *Jail {
	out := j.With(nil, nil)
	out.Read = nil
	for todo := slices.Clone(j.Read); len(todo) > 0; {
		path := todo[0]
		todo = todo[1:]
		real, err := filepath.EvalSymlinks(path)
		holds := func(file string) bool { return strings.HasPrefix(file, real+"/") }
		switch {
		case err != nil || !slices.ContainsFunc(files, holds) && !slices.Contains(files, real):
			out.Read = append(out.Read, path)
			continue
		case slices.Contains(files, real):
			continue
		}
		list, _ := os.ReadDir(real) // nothing is what can be read of a folder that cannot be listed
		for _, e := range list {
			if e.Type()&os.ModeSymlink == 0 && !strings.Contains(e.Name(), ":") {
				todo = append(todo, filepath.Join(real, e.Name()))
			}
		}
	}
	return out
}

// List gives the paths as evaluator/cpu/native/jail.h reads them.
func (j *Jail) List() string {
	var entries []string
	for _, p := range j.Read {
		entries = append(entries, "r"+p)
	}
	for _, p := range j.Write {
		entries = append(entries, "w"+p)
	}
	return strings.Join(entries, ":")
}

var landlock = sync.OnceValue(func() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
})

// ConfinesSignals says whether a jailed program can signal none outside.
func ConfinesSignals() bool { return landlock() >= 6 }

// Landlock is the version of the kernel's Landlock, 0 where it has none.
func Landlock() int { return landlock() }

// NoLandlock says what is lost where the kernel has no Landlock.
const NoLandlock = "this kernel has no Landlock (Linux 5.13, named in the parameter lsm=): candidates can read the user's files when they run, and when they are compiled"

// enter locks the calling thread, and with it all that it starts, into the
// jail, for good.
func (j *Jail) enter() error {
	version := landlock()
	if version == 0 {
		return nil
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1}
	size := unsafe.Sizeof(rules.Handled_access_fs)
	if version >= 2 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		rules.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(rules.Handled_access_net)
	}
	if version >= 5 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size += unsafe.Sizeof(rules.Scoped)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer func() { _ = unix.Close(int(set)) }()
	const read = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	for _, list := range []struct {
		paths  []string
		access uint64
	}{{j.Read, read}, {j.Write, rules.Handled_access_fs}, {[]string{os.DevNull}, rules.Handled_access_fs}} {
		for _, path := range list.paths {
			if err := allow(int(set), path, list.access); err != nil {
				return err
			}
		}
	}
	for _, port := range j.Ports {
		if version < 4 {
			break
		}
		rule := struct{ access, port uint64 }{rules.Handled_access_net, uint64(port)}
		const netPort = 2 // LANDLOCK_RULE_NET_PORT
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, netPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if errno != 0 {
			return os.NewSyscallError("landlock_add_rule", errno)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	if !j.Capabilities {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	return filterCalls(len(j.Ports) > 0, j.Streams)
}

// allow adds a path to a set of rules; one that is not there needs none.
func allow(set int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // what is not there is not opened
	}
	defer func() { _ = unix.Close(fd) }()
	var about unix.Stat_t
	if err := unix.Fstat(fd, &about); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if about.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
			unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}

// acts are refused to every program in a jail: what Landlock does not see and neither
// compilers nor GPU workers need. Those on processes outside are Landlock's.
var acts = []uint32{
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY,
	unix.SYS_MQ_OPEN, unix.SYS_MSGGET, unix.SYS_SEMGET,
}

// newNamespaces are the flags of clone for namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filterCalls refuses acts, limits for other processes, and sockets: but those of Unix
// for sequenced packets. CUDA's driver must be able to listen on one of these. They
// connect to none of another type, so to no service's, of which Landlock keeps only
// abstract names apart. Streams are allowed if asked, over Unix or over TCP with IPv4, whose
// ports Landlock knows. Where the kernel has no filters all this stays.
func filterCalls(tcp, streams bool) error {
	// The numbers of x86-64's other tables begin at 0x40000000.
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if arch == 0 {
		return nil
	}
	var filter []unix.SockFilter
	add := func(code uint16, k uint32, yes, no uint8) {
		filter = append(filter, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
	}
	load := func(at uint32) { add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
	argument := func(n uint32) { load(16 + 8*n) } // its lower half
	equal := func(k uint32, yes, no uint8) { add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, yes, no) }
	ret := func(k uint32) { add(unix.BPF_RET|unix.BPF_K, k, 0, 0) }
	allow := func() { ret(unix.SECCOMP_RET_ALLOW) }
	refuse := func(why unix.Errno) { ret(unix.SECCOMP_RET_ERRNO | uint32(why)) }
	// on has a block decide on a call; it must return in every way. Only the number
	// is loaded behind it.
	on := func(call uint32, block func()) {
		at := len(filter)
		equal(call, 0, 0)
		block()
		filter[at].Jf = uint8(len(filter) - at - 1)
	}

	load(4)
	equal(arch, 1, 0)
	refuse(unix.ENOSYS) // 32-bit calls could open any socket
	load(0)
	add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0x40000000, 0, 1)
	refuse(unix.ENOSYS)
	for _, call := range acts {
		on(call, func() { refuse(unix.EPERM) })
	}
	for _, call := range []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_CLONE3} { // no filter sees what they are to do
		on(call, func() { refuse(unix.ENOSYS) })
	}
	on(unix.SYS_CLONE, func() {
		argument(0)
		add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, newNamespaces, 0, 1)
		refuse(unix.EPERM)
		allow()
	})
	on(unix.SYS_PRLIMIT64, func() { // new limits, of another process than itself
		argument(0)
		equal(0, 4, 0)
		argument(2)
		equal(0, 0, 3)
		load(16 + 8*2 + 4)
		equal(0, 0, 1)
		allow()
		refuse(unix.EPERM)
	})
	on(unix.SYS_SOCKETPAIR, func() { // one for datagrams can send to any other
		argument(1)
		add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
		equal(unix.SOCK_STREAM, 1, 0)
		equal(unix.SOCK_SEQPACKET, 0, 1)
		allow()
		refuse(unix.EACCES)
	})
	on(unix.SYS_SOCKET, func() {
		argument(0)
		at := len(filter)
		equal(unix.AF_UNIX, 0, 0)
		argument(1)
		add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
		equal(unix.SOCK_SEQPACKET, 0, 1)
		allow()
		if streams {
			equal(unix.SOCK_STREAM, 0, 1)
			allow()
		}
		refuse(unix.EACCES)
		filter[at].Jf = uint8(len(filter) - at - 1)
		if tcp {
			equal(unix.AF_INET, 0, 7)
			argument(1)
			add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
			equal(unix.SOCK_STREAM, 0, 4)
			argument(2)
			equal(0, 1, 0)
			equal(unix.IPPROTO_TCP, 0, 1)
			allow()
		}
		refuse(unix.EACCES)
	})
	allow()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(filter)
	if err == unix.EINVAL || err == unix.ENOSYS { //nolint:errorlint // Prctl returns the number itself
		return nil
	}
	return os.NewSyscallError("prctl", err)
}

// dropCapabilities takes those of root from the calling thread and, as it gets no new
// privileges, from what it executes. It stays able to read what belongs to others,
// where Landlock lets it: sudo does not change whose a toolkit is.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	const kept = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	left := [2]unix.CapUserData{{Effective: has[0].Effective & kept, Permitted: has[0].Permitted & kept}}
	return os.NewSyscallError("capset", unix.Capset(&header, &left[0]))
}

// jailer starts a program from a thread of its own, which is locked in before
// and lives as long as the program: a domain of Landlock is a thread's, and its
// children's, and a thread cannot be exported it.
func (l *Launcher) jailer(cmd *exec.Cmd, j *Jail, result chan<- error) {
	defer l.jailed.Done()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		// Go never ends the process's first thread, which must stay free.
		// While this goroutine waits on it, another one runs elsewhere.
		elsewhere := make(chan error, 1)
		l.jailed.Add(1)
		go l.jailer(cmd, j, elsewhere)
		result <- <-elsewhere
		runtime.UnlockOSThread()
		return
	}
	err := j.enter()
	if err == nil {
		err = cmd.Start()
	}
	result <- err
	if err != nil {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if err != unix.EINTR { //nolint:errorlint // Waitid returns the number itself
				return
			}
		}
	}()
	select {
	case <-gone:
	case <-l.done:
	}
}

// FlagPaths lists what a compiler's flags name by absolute paths: folders of
// headers and libraries. The value of a macro is text, and names nothing.
func FlagPaths(flags []string) []string {
	var paths []string
	for i, f := range flags {
		if strings.HasPrefix(f, "-D") || i > 0 && flags[i-1] == "-D" {
			continue
		}
		for part := range strings.FieldsFuncSeq(f, func(r rune) bool { return r == ',' || r == '=' }) {
			if pathFlag.MatchString(part) {
				paths = append(paths, part[strings.IndexByte(part, '/'):])
			}
		}
	}
	return paths
}

var pathFlag = regexp.MustCompile(`^(?:-[A-Za-z]*)?/[^{}]+$`)

// CompilerFolders asks a C compiler where it looks for programs, libraries and
// headers.
func CompilerFolders(ctx context.Context, l *Launcher, path string) []string {
	folders := []string{filepath.Dir(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		folders = append(folders, filepath.Dir(real))
	}
	ask := func(args ...string) []byte {
		out, _ := l.Run(ctx, Command{Path: path, Args: args, Timeout: 30 * time.Second, Output: 64 << 10})
		return out
	}
	for line := range strings.Lines(string(ask("-print-search-dirs"))) {
		kind, list, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || kind != "install" && kind != "programs" && kind != "libraries" {
			continue
		}
		folders = append(folders, filepath.SplitList(strings.TrimPrefix(list, "="))...)
	}
	folders = append(folders, IncludeFolders(ctx, l, path, "c")...)
	var found []string
	for _, f := range folders {
		if info, err := os.Stat(f); err == nil && info.IsDir() && filepath.IsAbs(f) {
			found = append(found, filepath.Clean(f))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// IncludeFolders asks a compiler where it looks for headers of a language, "c" or "c++".
func IncludeFolders(ctx context.Context, l *Launcher, path, language string) (folders []string) {
	out, _ := l.Run(ctx, Command{Path: path, Args: []string{"-E", "-v", "-x", language, os.DevNull}, Timeout: 30 * time.Second, Output: 64 << 10})
	if _, list, ok := bytes.Cut(out, []byte("search starts here:\n")); ok {
		for line := range bytes.Lines(list) {
			if line[0] == ' ' {
				folders = append(folders, string(bytes.TrimSpace(line)))
			}
		}
	}
	return folders
}
