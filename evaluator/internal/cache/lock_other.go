//go:build !unix

package cache

import "os"

func lock(*os.File) bool { return false }
