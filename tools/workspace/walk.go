package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the largest number of symbolic links in a path, as in Linux.
const maxLinks = 40

// A walk follows one path and counts its links.
type walk struct {
	ctx   context.Context //nolint:containedctx // a walk is one call
	why   purpose
	links int
}

// below follows the components of rest. It returns the place reached, or an absolute path to continue with: the target
// of an absolute link, or the path above the area after a ".." at the top.
func (k *walk) below(a *area, rest string) (p *place, jump string, err error) {
	in, err := begin(a)
	if err != nil {
		return nil, "", err
	}
	p = &place{chain: in, base: "."}
	todo := strings.Split(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
	if rest == "" {
		todo = nil
	}
	for len(todo) > 0 && jump == "" && err == nil {
		if k.ctx.Err() != nil {
			err = context.Cause(k.ctx)
			break
		}
		name := todo[0]
		todo, jump, err = k.step(p, name, todo[1:])
	}
	if err == nil && jump == "" && p.base == "." {
		var dir *os.Root
		if dir, err = p.last(); err == nil {
			p.info, err = dir.Stat(".")
		}
	}
	if err != nil || jump != "" {
		p.close()
		return nil, jump, err
	}
	return p, "", nil
}

// step follows one component from a place. It returns the remaining components, or an absolute path to continue with.
func (k *walk) step(p *place, name string, todo []string) (left []string, jump string, err error) {
	switch name {
	case "", ".", "..":
		if p.base != "." {
			if err := p.directory(); err != nil {
				return nil, "", err
			}
		}
		if name != ".." {
			return todo, "", nil
		}
		return p.up(todo)
	}
	if p.base != "." && p.info == nil { // possible only with toWrite
		p.missing = append(p.missing, name)
		return todo, "", nil
	}
	if p.base != "." {
		if err := p.directory(); err != nil {
			return nil, "", err
		}
		if err := p.enter(); err != nil {
			return nil, "", err
		}
	}
	target, err := k.look(p, name)
	switch {
	case err != nil:
		return nil, "", err
	case target == "":
		return todo, "", nil
	case filepath.IsAbs(target):
		return nil, join(target, todo), nil
	}
	return append(strings.Split(target, string(filepath.Separator)), todo...), "", nil
}

// up moves the place to the parent directory, or returns the path of the area's parent.
func (p *place) up(todo []string) (left []string, jump string, err error) {
	if p.base != "." {
		p.base, p.info = ".", nil
		return todo, "", nil
	}
	if parent := filepath.Dir(p.area.name()); !p.leave() && parent != p.area.name() {
		return nil, join(parent, todo), nil
	}
	return todo, "", nil
}

// directory returns an error if the place is not a directory.
func (p *place) directory() error {
	switch {
	case p.info == nil:
		return syscall.ENOENT
	case !p.info.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

// look makes a name in the last directory the place or, if the name is a link, returns the link's target.
func (k *walk) look(p *place, name string) (target string, err error) {
	dir, err := p.last()
	if err != nil {
		return "", err
	}
	info, err := dir.Lstat(name)
	if k.why == toWrite && errors.Is(err, fs.ErrNotExist) {
		p.base, p.info = name, nil
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		p.base, p.info = name, info
		return "", nil
	}
	if k.links++; k.links > maxLinks {
		return "", syscall.ELOOP
	}
	return dir.Readlink(name)
}

// join appends the components to dir without cleaning: a cleaned ".." would skip links.
func join(dir string, rest []string) string {
	const sep = string(filepath.Separator)
	if len(rest) == 0 {
		return dir // a slash at the end would require a directory
	}
	return strings.TrimSuffix(dir, sep) + sep + strings.Join(rest, sep)
}
