package deploy

import (
	"bytes"
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// endLimit is for what happens at once on a machine that has nothing else to do.
const endLimit = 20 * time.Second

// services are the three, in the order in which they are started.
var services = []string{"inventory", "email", "analytics"}

// repository is the top folder, which is the context of every image.
const repository = "../.."

// token is what compose.yaml is given; it would be read as a number if it had no quotes.
const token = "7e5"

// outputs is the folder for what this process builds; TestMain removes it.
var outputs string

func TestMain(m *testing.M) {
	if os.Getenv(containedVariable) != "" {
		contained() // does not return
	}
	_ = os.Setenv("NATS_TOKEN", `"`+token+`"`) // for nats.conf, which finds it in its container
	var err error
	if outputs, err = os.MkdirTemp("", "ackfloor-deploy-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(outputs)
	os.Exit(code)
}

// programs builds what the images run, once, by the RUN lines of the Dockerfiles, in a copy of what COPY would bring into them.
var programs = sync.OnceValues(func() (map[string]string, error) {
	src := filepath.Join(outputs, "src")
	if err := copyContext(repository, src); err != nil {
		return nil, err
	}
	made := map[string]string{}
	for _, name := range services {
		d, err := readDockerfile(name)
		if err != nil {
			return nil, err
		}
		root := filepath.Join(outputs, name) // what is / in the build stage
		if err := os.Mkdir(root, 0o755); err != nil {
			return nil, err
		}
		for _, run := range d.runs {
			line := strings.NewReplacer(" /", " "+root+"/").Replace(run)
			cmd := exec.Command("sh", "-ec", line)
			cmd.Dir = src
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, &buildError{name, line, err, out}
			}
		}
		made[name] = root
	}
	return made, nil
})

type buildError struct {
	name, line string
	err        error
	out        []byte
}

func (e *buildError) Error() string {
	return e.name + ": " + e.line + ": " + e.err.Error() + "\n" + string(e.out)
}

// built is the folder that stands for the build stage of a service's image.
func built(t *testing.T, name string) string {
	t.Helper()
	made, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return made[name]
}

// copyContext copies what a build reads: Go code, and what is embedded in it.
func copyContext(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && rel != "." && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return nil // it was there a moment ago: somebody edits
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// The program needs no loader and no library, which an empty image does not have, and tells nothing of the folder in which it was built.
func TestProgramsAreStatic(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: what is built on this system is no program for Linux")
	}
	for _, name := range services {
		path := filepath.Join(built(t, name), name)
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s has an interpreter: it is not static", name)
			}
		}
		if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
			t.Errorf("%s needs %q, %v", name, libraries, err)
		}
		_ = f.Close()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), outputs) {
			t.Errorf("%s has the folder in it in which it was built", name)
		}
		t.Logf("%s: %d MB", name, len(text)>>20)
	}
}

// build builds the Go file in a folder, as the images are built.
func build(t *testing.T, folder, program string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, filepath.Base(program)+".go")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// lockedBuffer is the output of a process.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
