// Package clusterkey authenticates connections between the controllers of a cluster without TLS, by a secret key that
// all of them have: both sides prove at the beginning that they have it, and each record carries an authenticator, so
// nobody else can send, change, repeat or reorder what a member reads. It does not encrypt: whoever can read the
// network reads the log. It does not tell one controller from another, and knows nothing of what is sent. With TLS it
// is not used.
package clusterkey

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/token"
)

// File is the name of the key in the data folder of a cluster.
const File = "cluster-key"

const keyLen = 32

// Key is the secret of a cluster.
type Key struct {
	file   string // for errors
	secret []byte
}

// Load reads the key from a data folder. The error is fs.ErrNotExist if there is none. Other users of the machine must
// not be able to read it.
func Load(dir string) (*Key, error) {
	file := filepath.Join(dir, File)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the key of the cluster: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("the key of the cluster: %w", err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("%s can be read or written by other users (mode %o): chmod 600 it, and make a new key "+
			"if they may have read it", file, info.Mode().Perm())
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != keyLen {
		return nil, fmt.Errorf("%s is damaged: it has to contain %d hexadecimal digits; copy it from another "+
			"controller", file, 2*keyLen)
	}
	return &Key{file, secret}, nil
}

// Make makes a key in a data folder, unless there is one. made says whether it did. Others that do the same at the same
// time get the same key.
func Make(dir string) (file string, made bool, err error) {
	file = filepath.Join(dir, File)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, false, err
	}
	secret := make([]byte, keyLen)
	_, _ = rand.Read(secret) // never fails
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return file, false, fmt.Errorf("make the key of the cluster: %w", err)
	}
	temp, err := os.CreateTemp(dir, File+"-*") // only for its owner
	if err != nil {
		return file, false, fmt.Errorf("make the key of the cluster: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = fmt.Fprintf(temp, "%x\n", secret)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Link(temp.Name(), file) // whole or not at all, and never in the place of another
	}
	if errors.Is(err, fs.ErrExist) {
		return file, false, nil
	}
	if err != nil {
		return file, false, fmt.Errorf("make the key of the cluster: %w", err)
	}
	return file, true, nil
}

// Token returns the token by which the controllers of the cluster know each other over HTTP. It is derived from the
// key, which whoever learns the token does not learn.
func (k *Key) Token() string { return token.Of(k.derive("requests", nil)) }

// derive returns a key for one purpose on one connection (RFC 5869, with the nonces of both sides as the salt).
func (k *Key) derive(purpose string, nonces []byte) []byte {
	derived, err := hkdf.Key(sha256.New, k.secret, nonces, "holdfast "+purpose, keyLen)
	if err != nil {
		panic(err) // its length is not possible, and that is a constant
	}
	return derived
}
