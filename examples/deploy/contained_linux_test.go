package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// containedVariable tells this program that it is about to become what a container runs: it has a jail in JSON.
const containedVariable = "ACKFLOOR_DEPLOY_CONTAINED"

const (
	imageUser = 65532 // USER of the images
	capAdmin  = 21    // CAP_SYS_ADMIN: to mount, within the new namespaces
	dropAll   = 4     // PR_CAP_AMBIENT_CLEAR_ALL
	prAmbient = 47    // PR_CAP_AMBIENT
	prNoNew   = 38    // PR_SET_NO_NEW_PRIVS
)

// jail is a container without an engine: new user, process and mount namespaces, an empty root that can't be written to, and one program as process 1.
type jail struct {
	Root    string            // the folder over which its root is mounted; "": a new one
	Program string            // on this system; "": it is made and left
	Name    string            // in the jail
	Args    []string          // behind it
	Env     []string          // all of it
	Dir     string            // where it works
	Mounts  map[string]string // folders: where in the jail, and which of this system; these can be written to
	Files   map[string]string // files that can be read: where in the jail, and what is in them
}

// inmate is a process in a jail.
type inmate struct {
	cmd   *exec.Cmd
	out   *lockedBuffer
	ended chan struct{}
}

// start starts j's program. It is killed at the end of the test, if it is still there.
func (j jail) start(t *testing.T) *inmate {
	t.Helper()
	cmd, err := j.command()
	if err != nil {
		t.Fatal(err)
	}
	p := &inmate{cmd: cmd, out: &lockedBuffer{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state has what came of it
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", j.Name, p.out)
		}
	})
	return p
}

// code waits for the end of the process. -1 is that of one which a signal killed.
func (p *inmate) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(endLimit):
		t.Fatalf("it did not end within %v", endLimit)
		return 0
	}
}

// term sends SIGTERM, as an engine does.
func (p *inmate) term(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// drained waits for the end of a worker that was told to stop and tells how many messages it has handled.
func (p *inmate) drained(t *testing.T) (handled int) {
	t.Helper()
	code := p.code(t)
	_, last, _ := strings.Cut(p.out.String(), "stopped: ")
	if _, err := fmt.Sscanf(last, "%d handled", &handled); err != nil || code != 0 {
		t.Fatalf("exit code %d, want 0 of a drained worker; it said:\n%s", code, p.out)
	}
	return handled
}

// peak is the most memory that a process has had, in MB. It has to be there still.
func (p *inmate) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb >> 10
}

// jailed tells why there can be no jail here; nil: there can be.
var jailed = sync.OnceValue(func() error {
	out, err := jail{}.command()
	if err != nil {
		return err
	}
	text, err := out.CombinedOutput() // without a program it is left again
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
})

// needJail skips, aloud, where the system lets nobody make namespaces.
func needJail(t *testing.T) {
	t.Helper()
	if err := jailed(); err != nil {
		if os.Getenv("ACKFLOOR_NEED_NAMESPACES") != "" {
			t.Fatalf("no jail: %v", err)
		}
		t.Skipf("SKIPPED: user, process and mount namespaces can't be made here: %v", err)
	}
}

// command is j as a process that is about to enter it.
func (j jail) command() (*exec.Cmd, error) {
	if j.Root == "" {
		root, err := os.MkdirTemp(outputs, "root-")
		if err != nil {
			return nil, err
		}
		j.Root = root
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = []string{containedVariable + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{capAdmin},
	}
	return cmd, nil
}

// contained makes the root of a jail and becomes its program. This runs in the new namespaces.
func contained() {
	runtime.LockOSThread() // capabilities belong to a thread
	var j jail
	if err := json.Unmarshal([]byte(os.Getenv(containedVariable)), &j); err != nil {
		fail(err)
	}
	if err := j.furnish(); err != nil {
		fail(err)
	}
	if err := enter(j.Root); err != nil {
		fail(err)
	}
	if j.Program == "" {
		os.Exit(0)
	}
	if err := os.Chdir(j.Dir); err != nil {
		fail(err)
	}
	for _, option := range [][3]uintptr{{prAmbient, dropAll}, {prNoNew, 1}} {
		if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option[0], option[1], 0, 0, 0, 0); e != 0 {
			fail(fmt.Errorf("prctl %d: %w", option[0], e))
		}
	}
	fail(syscall.Exec(j.Name, append([]string{j.Name}, j.Args...), j.Env))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "jail:", err)
	os.Exit(126)
}

// furnish mounts an empty file system and puts into it what the jail has.
func (j jail) furnish() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("/ private: %w", err)
	}
	if err := syscall.Mount("image", j.Root, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("a file system of its own: %w", err)
	}
	for name, text := range j.Files {
		path := filepath.Join(j.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o440); err != nil {
			return err
		}
	}
	for name, from := range j.Mounts {
		to := filepath.Join(j.Root, name)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", name, err)
		}
	}
	if j.Program == "" {
		return nil
	}
	to := filepath.Join(j.Root, j.Name)
	if err := os.WriteFile(to, nil, 0o555); err != nil {
		return err
	}
	if err := syscall.Mount(j.Program, to, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", j.Name, err)
	}
	return nil
}

// enter makes root the root, of which nothing can be changed, and leaves nothing else to be seen.
func enter(root string) error {
	const old = ".old"
	if err := os.Mkdir(filepath.Join(root, old), 0o700); err != nil {
		return err
	}
	if err := syscall.PivotRoot(root, filepath.Join(root, old)); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Unmount("/"+old, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	if err := os.Remove("/" + old); err != nil {
		return err
	}
	flags := uintptr(syscall.MS_REMOUNT | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV)
	if err := syscall.Mount("image", "/", "tmpfs", flags, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("the root, read only: %w", err)
	}
	return nil
}
