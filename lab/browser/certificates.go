package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Certificates are those of a browser.
type Certificates struct {
	CA        string // file of the authority of servers
	Cert, Key string // files of the certificate that is used at Site; "": none
	Site      string // such as https://127.0.0.1:8653
}

// FindCertutil says whether Import has what it needs.
func FindCertutil() bool {
	_, err := exec.LookPath("certutil")
	return err == nil
}

// Import gives certificates to the browser that Open starts with the same folder. It needs certutil and pk12util of
// NSS, and openssl if there is a certificate for a site.
func Import(ctx context.Context, dir string, c Certificates) error {
	db := filepath.Join(dir, ".pki", "nssdb")
	if err := os.MkdirAll(db, 0o700); err != nil {
		return err
	}
	err := errors.Join(
		run(ctx, "certutil", "-d", "sql:"+db, "-N", "--empty-password"),
		run(ctx, "certutil", "-d", "sql:"+db, "-A", "-n", "authority", "-t", "C,,", "-i", c.CA))
	if err != nil || c.Cert == "" {
		return err
	}
	p12 := filepath.Join(dir, "certificate.p12")
	if err := errors.Join(
		run(ctx, "openssl", "pkcs12", "-export", "-in", c.Cert, "-inkey", c.Key, "-out", p12, "-passout", "pass:"),
		run(ctx, "pk12util", "-d", "sql:"+db, "-i", p12, "-W", "", "-K", "")); err != nil {
		return err
	}
	return c.choose(dir)
}

// choose answers in advance which certificate is used, because a browser without a window cannot ask.
func (c Certificates) choose(dir string) error {
	type object = map[string]any
	text, err := json.Marshal(object{"profile": object{"content_settings": object{"exceptions": object{
		"auto_select_certificate": object{c.Site + ",*": object{"setting": object{"filters": []object{{}}}}}}}}})
	if err != nil {
		return err
	}
	profile := filepath.Join(dir, "Default")
	if err := os.MkdirAll(profile, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(profile, "Preferences"), text, 0o600)
}

func run(ctx context.Context, name string, arg ...string) error {
	if out, err := exec.CommandContext(ctx, name, arg...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, arg, err, out)
	}
	return nil
}
