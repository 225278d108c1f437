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
	return &Jail{Read: slices.Concat(j.Read, read), Write: slices.Concat(j.Write, write), Ports: j.Ports}
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
	return noSockets(len(j.Ports) > 0)
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

// noSockets refuses sockets but those of Unix, whose abstract names Landlock
// keeps apart, and, if asked, of TCP over IPv4, whose ports it knows. Where the
// kernel has no filters the network stays.
func noSockets(tcp bool) error {
	// The numbers of x86-64's other tables begin at 0x40000000.
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if arch == 0 {
		return nil
	}
	const load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	family := uint32(unix.AF_UNIX) // which has been let through before
	if tcp {
		family = unix.AF_INET
	}
	filter := []unix.SockFilter{
		{Code: load, K: 4},
		{Code: equal, K: arch, Jf: 16}, // 32-bit calls could open any socket
		{Code: load, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jt: 14},
		{Code: equal, K: unix.SYS_IO_URING_SETUP, Jt: 13},
		{Code: equal, K: unix.SYS_SOCKET, Jf: 9},
		{Code: load, K: 16}, // the family
		{Code: equal, K: unix.AF_UNIX, Jt: 7},
		{Code: equal, K: family, Jf: 7},
		{Code: load, K: 24}, // the type, with flags
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		{Code: equal, K: unix.SOCK_STREAM, Jf: 4},
		{Code: load, K: 32}, // the protocol
		{Code: equal, K: 0, Jt: 1},
		{Code: equal, K: unix.IPPROTO_TCP, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(filter)
	if err == unix.EINVAL || err == unix.ENOSYS { //nolint:errorlint // Prctl returns the number itself
		return nil
	}
	return os.NewSyscallError("prctl", err)
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
// headers and libraries.
func FlagPaths(flags []string) []string {
	var paths []string
	for _, f := range flags {
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
	if _, list, ok := bytes.Cut(ask("-E", "-v", "-x", "c", os.DevNull), []byte("search starts here:\n")); ok {
		for line := range bytes.Lines(list) {
			if line[0] == ' ' {
				folders = append(folders, string(bytes.TrimSpace(line)))
			}
		}
	}
	var found []string
	for _, f := range folders {
		if info, err := os.Stat(f); err == nil && info.IsDir() && filepath.IsAbs(f) {
			found = append(found, filepath.Clean(f))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
