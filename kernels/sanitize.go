package kernels

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
)

// sanitize reads the dimensions at which tools launch a genome in a search, and how much of
// the grid. Results of expressions that name no parameter and no limit are checked here.
func (l *loader) sanitize(t *sanitizeTable, im *Implementation, names map[string]any) {
	if !im.on().Has(backend.Sanitize) {
		l.d.fail(t.Table.key, "sanitize means nothing to the %s backend: remove it", im.Backend)
	}
	if t.Blocks != nil {
		l.sanitizeBlocks(t, im)
	}
	if t.Dims == nil {
		if t.Blocks == nil {
			l.d.fail(t.Table.key, "sanitize has neither dims nor blocks: add one of them, or remove [implementation.sanitize]")
		}
		return
	}
	l.d.only(t.Dims, "dims of [implementation.sanitize]", im.Problem().Dims...)
	if len(t.Dims.names) == 0 {
		l.d.fail(t.Dims.at, "dims is empty: name a dimension, or remove [implementation.sanitize]")
	}
	im.SanitizeDims, im.sanitize = map[string]string{}, map[string]*expression{}
	for _, dim := range t.Dims.names {
		n := t.Dims.children[dim]
		l.d.expect(dim, n, stringNode)
		e := l.compile(n, names)
		im.SanitizeDims[dim], im.sanitize[dim] = n.str, e
		// The kind of the result does not depend on the values.
		switch x, _ := e.prog.Any(names); x.(type) {
		case bool, string:
			l.d.fail(n.at, "%s: %q gives %v, expected an integer", dim, n.str, x)
		}
		free := !slices.ContainsFunc(e.prog.Names(), func(name string) bool { return !slices.Contains(im.Problem().Dims, name) })
		for _, s := range im.Problem().ShapesFor(Sanitize) {
			if !free {
				break
			}
			if _, err := e.extent(s.env()); err != nil {
				l.d.fail(n.at, "%s at shape %s: %v", dim, s.Name, err)
			}
		}
	}
}

// sanitizeBlocks reads how many blocks a search launches. If a block waits for others, or reads
// what they wrote, the first few alone would hang or read unwritten data.
func (l *loader) sanitizeBlocks(t *sanitizeTable, im *Implementation) {
	if im.SanitizeBlocks = t.Blocks.value.(int64); im.SanitizeBlocks < 1 {
		l.d.fail(t.Blocks.at, "blocks is %d, expected at least 1", im.SanitizeBlocks)
	}
	if launch := im.Launch; len(launch.Then) > 0 || len(launch.Cluster) > 0 || launch.Cooperative != "" || launch.Workspace != "" {
		l.d.fail(t.Blocks.key, "blocks is for a launch whose blocks need no others, and this one has several kernels, clusters, a workspace or is cooperative: remove it")
	}
}

// extent evaluates the size of a dimension.
func (e *expression) extent(env map[string]any) (int64, error) {
	n, err := e.prog.Int(env)
	if err == nil && (n < 1 || n > maxDim) {
		err = fmt.Errorf("%q gives %d, expected 1 to %d", e.src, n, int64(maxDim))
	}
	return n, err
}

// SanitizeShape is the shape at which a search launches a genome under tools that watch
// memory and threads: s, the problem's own, with the dimensions that the implementation
// declares for it. It is s itself if none are declared, and if the implementation cannot
// compute the result; see [Implementation.Supports]. A shape of the genome's own is named
// by its dimensions, such as 72x72x136. Its Blocks are those that the
// implementation declares.
func (im *Implementation) SanitizeShape(g genome.Genome, s Shape, limits map[string]any) (Shape, error) {
	s.Blocks = im.SanitizeBlocks
	if im.sanitize == nil {
		return s, nil
	}
	env := s.env()
	known, err := withDefaults(limits)
	if err != nil {
		return s, err
	}
	maps.Copy(env, known)
	maps.Copy(env, g.Map())
	own := Shape{Use: s.Use, Dims: maps.Clone(s.Dims), Blocks: s.Blocks}
	var sizes []string
	for _, dim := range im.Problem().Dims {
		if e := im.sanitize[dim]; e != nil {
			n, err := e.extent(env)
			if err != nil {
				return s, im.fail(e.at, "%s: %v, for the genome %s at shape %s", dim, err, g, s.Name)
			}
			own.Dims[dim] = n
		}
		sizes = append(sizes, fmt.Sprint(own.Dims[dim]))
	}
	own.Name = strings.Join(sizes, "x")
	supported := im.Supports(g, own, limits) == nil
	if maps.Equal(own.Dims, s.Dims) || !supported {
		return s, nil
	}
	return own, nil
}
