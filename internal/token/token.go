// Package token knows people and programs by secrets that they send with each request over HTTP (RFC 6750), for those
// who have no certificate. A file has the role, the name and the hash of each token. The tokens themselves are nowhere.
//
// What the holder of a role may do is not decided here: package access does.
package token

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// prefix begins every token, so that one that was published by mistake can be found.
const prefix = "holdfast-"

const secretLen = 32 // bytes, at random: nobody guesses them, so their hash needs no salt and no repetition

// Bounds of the file. One that exceeds them is not used.
const (
	maxFile   = 1 << 20
	maxTokens = 4096
)

// Roles are those that a token can have. Controllers, agents and switches have certificates.
var Roles = []pki.Role{pki.Viewer, pki.Operator, pki.Admin, pki.Client}

// Is reports whether a text looks like a token: other software has tokens of its own.
func Is(text string) bool { return strings.HasPrefix(text, prefix) }

// Of returns the token with this secret.
func Of(secret []byte) string { return prefix + base64.RawURLEncoding.EncodeToString(secret) }

// maxSecretFile bounds a file with one token.
const maxSecretFile = 1 << 10

// ReadSecret returns the token in the file of somebody who has one. It has nothing else.
func ReadSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if !Is(secret) || strings.ContainsFunc(secret, unicode.IsSpace) {
		return "", fmt.Errorf("%s has no token: write into it only what `holdfast token add` has printed", file)
	}
	return secret, nil
}

// Hash is what the file has of a token.
type Hash [sha256.Size]byte

// HashOf returns the hash of a token.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

// Entry is a token in the file.
type Entry struct {
	pki.Identity
	Hash Hash
}

// List is the contents of a file.
type List []Entry

// Read reads a file with a token in a line: role, name, and its SHA-256 in hexadecimal digits. What follows # is a
// comment. Only its owner may be able to change it.
func Read(file string) (List, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w; `holdfast token add` makes the file", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("tokens: %w", err)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read: remove tokens", file, info.Size(), maxFile)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s can be written by other users (mode %o), who could add a token: chmod 600 it, and "+
			"look at what it has", file, info.Mode().Perm())
	}
	var list List
	number := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		number++
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e, err := parse(fields)
		if err == nil {
			err = list.check(e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		list = append(list, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, number+1, err)
	}
	return list, nil
}

func parse(fields []string) (e Entry, err error) {
	if len(fields) != 3 {
		return e, fmt.Errorf("%d words: write ROLE NAME HASH, as `holdfast token add` does", len(fields))
	}
	e.Identity = pki.Identity{Role: pki.Role(fields[0]), Name: fields[1]}
	hash, err := hex.DecodeString(fields[2])
	if err != nil || len(hash) != len(e.Hash) {
		return e, fmt.Errorf("the hash of %s is not the SHA-256 of a token in hexadecimal digits: add the token anew "+
			"with `holdfast token add`", e.Identity)
	}
	copy(e.Hash[:], hash)
	return e, nil
}

// check returns an error if an entry cannot be added to the list.
func (l List) check(e Entry) error {
	switch {
	case !slices.Contains(Roles, e.Role):
		return fmt.Errorf("role %q: a token is for one of %v; all others need certificates", e.Role, Roles)
	case len(l) >= maxTokens:
		return fmt.Errorf("more than %d tokens: remove some", maxTokens)
	case slices.ContainsFunc(l, func(o Entry) bool { return o.Name == e.Name }):
		return fmt.Errorf("a token called %s is there already: remove it, or choose another name", e.Name)
	}
	return e.Validate()
}

// Find returns the entry of a token, by its hash: how long this takes says nothing about those that there are.
func (l List) Find(hash Hash) (Entry, bool) {
	i := slices.IndexFunc(l, func(e Entry) bool { return e.Hash == hash })
	if i < 0 {
		return Entry{}, false
	}
	return l[i], true
}

// Add makes a token, and adds it to a file, which it makes if need be. The result is shown once: the file does not have
// it.
func Add(file string, id pki.Identity) (token string, err error) {
	secret := make([]byte, secretLen)
	_, _ = rand.Read(secret) // never fails
	token = Of(secret)
	e := Entry{id, HashOf(token)}
	err = rewrite(file, func(list List, text []byte) ([]byte, error) {
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		return fmt.Appendf(text, "%s %s %x\n", e.Role, e.Name, e.Hash), list.check(e)
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// Remove removes the token of that name from a file.
func Remove(file, name string) error {
	return rewrite(file, func(list List, text []byte) ([]byte, error) {
		if !slices.ContainsFunc(list, func(e Entry) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%s has no token called %s: `holdfast token list` shows those that it has", file,
				name)
		}
		var rest []byte
		for line := range bytes.Lines(text) {
			entry, _, _ := bytes.Cut(line, []byte("#"))
			if fields := bytes.Fields(entry); len(fields) == 0 || string(fields[1]) != name {
				rest = append(rest, line...)
			}
		}
		return rest, nil
	})
}

// rewrite replaces a file at once, so a reader finds either the old one or the new one whole. change gets the tokens
// and the text of the old one, which are empty if there is none.
func rewrite(file string, change func(List, []byte) ([]byte, error)) error {
	unlock, err := lock(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer unlock()
	list, err := Read(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tokens: %w", err)
	}
	if text, err = change(list, text); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-*") // only for its owner
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err = errors.Join(err, keepReaders(temp, file), temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}

// lock locks a folder until unlock is called: of two commands at once, the later one would undo what the other one has
// changed. The file itself cannot be locked, because it is replaced.
func lock(folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("tokens: lock %s against another `holdfast token`: %w", folder, err)
	}
	return func() { f.Close() }, nil
}

// keepReaders gives a new file the owner, group and mode of the one that it replaces: a controller that could not read
// it would keep accepting what was removed.
func keepReaders(f *os.File, old string) error {
	info, err := os.Stat(old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s, is := info.Sys().(*syscall.Stat_t); is {
		if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
			return fmt.Errorf("keep the owner %d and the group %d of %s: %w; repeat the command as that user, or as "+
				"root", s.Uid, s.Gid, old, err)
		}
	}
	return f.Chmod(info.Mode().Perm()) // after Chown: until then the group is another one
}
