// The two commands of helm that the tests of the chart need, out of helm's own packages:
//
//	helm lint CHART [-f FILE]...
//	helm template NAME CHART [-n NAMESPACE] [--kube-version V] [-f FILE]... [--notes]
//
// It prints what helm's own commands print, and builds in a third of their time, as it talks to no cluster.
// The cluster's check compares the two.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

type files []string

func (f *files) String() string { return strings.Join(*f, ",") }

func (f *files) Set(name string) error {
	*f = append(*f, name)
	return nil
}

// values merges the files, later ones over earlier ones.
func (f files) values() (map[string]any, error) {
	merged := map[string]any{}
	for _, name := range f {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		one, err := loader.LoadValues(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		merged = loader.MergeMaps(merged, one)
	}
	return merged, nil
}

type options struct {
	namespace, kubeVersion string
	values                 files
	notes                  bool
}

// parse takes the flags out of the arguments, wherever they are, and returns the rest.
func parse(args []string) (opt options, rest []string, err error) {
	set := flag.NewFlagSet("helm", flag.ContinueOnError)
	set.StringVar(&opt.namespace, "n", "default", "namespace")
	set.StringVar(&opt.kubeVersion, "kube-version", "", "version of Kubernetes to render for")
	set.Var(&opt.values, "f", "file of values")
	set.BoolVar(&opt.notes, "notes", false, "print the notes and nothing else")
	for len(args) > 0 {
		if err = set.Parse(args); err != nil {
			return
		}
		args = set.Args()
		if len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	return
}

func runLint(opt options, folder string) error {
	values, err := opt.values.values()
	if err != nil {
		return err
	}
	result := lint.RunAll(folder, values, opt.namespace)
	for _, message := range result.Messages {
		fmt.Println(message)
	}
	if result.HighestSeverity >= support.WarningSev {
		return errors.New("lint: the chart has warnings or errors")
	}
	return nil
}

func capabilities(kubeVersion string) (*common.Capabilities, error) {
	caps := common.DefaultCapabilities.Copy()
	if kubeVersion == "" {
		return caps, nil
	}
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	caps.KubeVersion = *version
	return caps, nil
}

func render(opt options, name string, c *chart.Chart, caps *common.Capabilities) (map[string]string, error) {
	values, err := opt.values.values()
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: name, Namespace: opt.namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, release, caps)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func runTemplate(opt options, name, folder string) error {
	c, err := loader.Load(folder)
	if err != nil {
		return err
	}
	caps, err := capabilities(opt.kubeVersion)
	if err != nil {
		return err
	}
	if wanted := c.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, caps.KubeVersion.String()) {
		return fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, caps.KubeVersion.Version)
	}
	rendered, err := render(opt, name, c, caps)
	if err != nil {
		return err
	}
	notes := path.Join(c.Name(), "templates", "NOTES.txt")
	if opt.notes {
		fmt.Print(rendered[notes])
		return nil
	}
	maps.DeleteFunc(rendered, func(file, _ string) bool { return file == notes })
	hooks, manifests, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	fmt.Println(strings.TrimSpace(text.String()))
	for _, h := range hooks {
		fmt.Printf("---\n# Source: %s\n%s\n", h.Path, h.Manifest)
	}
	return nil
}

func run(args []string) error {
	opt, rest, err := parse(args)
	switch {
	case err != nil:
		return err
	case len(rest) == 2 && rest[0] == "lint":
		return runLint(opt, rest[1])
	case len(rest) == 3 && rest[0] == "template":
		return runTemplate(opt, rest[1], rest[2])
	}
	return errors.New("usage: helm lint CHART [-f FILE]... | helm template NAME CHART [-n NAMESPACE] [--kube-version V] [-f FILE]... [--notes]")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
