package fencepost

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The two ways in README.md to do without libfencepost.so.
func TestItLinksStatically(t *testing.T) {
	for name, way := range map[string]struct {
		environment string
		flags       []string
		libraries   bool
	}{
		"all":           {flags: []string{"-ldflags", "-linkmode external -extldflags -static"}},
		"the fencepost": {environment: "CGO_LDFLAGS=-Wl,--as-needed -l:libfencepost.a", libraries: true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			program := filepath.Join(folder, "worker")
			build := exec.Command("go", append(append([]string{"build", "-o", program}, way.flags...), "./example")...)
			if build.Env = os.Environ(); way.environment != "" {
				build.Env = append(build.Env, way.environment)
			}
			if printed, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, printed)
			}
			file, err := elf.Open(program)
			must(t, err)
			defer file.Close()
			needed, err := file.ImportedLibraries()
			must(t, err)
			if strings.Contains(strings.Join(needed, " "), "fencepost") || (len(needed) > 0) != way.libraries {
				t.Errorf("it needs %q", needed)
			}
			if printed, err := exec.Command(program, filepath.Join(folder, "jobs.db"), "report", "w").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, printed)
			}
		})
	}
}
