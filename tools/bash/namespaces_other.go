//go:build !linux

package bash

import (
	"errors"
	"os/exec"
)

var errNoNamespaces = errors.New("namespaces are Linux's")

// RunHelper is what main begins with in a program that runs commands with [SandboxNamespaces]. Here it does nothing.
func RunHelper() {}

func checkNamespaces() error { return errNoNamespaces }

func (shell) namespaced([]string, string) (*exec.Cmd, error) { return nil, errNoNamespaces }
