package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

const (
	day               = 24 * time.Hour
	authorityLifetime = 3650 * day
	skew              = time.Hour // that the clocks of two machines may differ by
)

// Bounds and default of a certificate's lifetime.
const (
	DefaultDays = 365
	MaxDays     = 3650
)

// CertFile and KeyFile are where the folder has the certificate and the key of a name. The
// authority's own are those of AuthorityName.
func CertFile(dir, name string) string { return filepath.Join(dir, name+".pem") }

// KeyFile is the file of the key.
func KeyFile(dir, name string) string { return filepath.Join(dir, name+"-key.pem") }

// AuthorityName is the name that nobody else can have.
const AuthorityName = "ca"

// Init makes an authority in dir, which may not have one.
func Init(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("folder of the authority: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		// The serial is in the name, so that an old and a new authority of a cluster have different ones.
		SerialNumber: newSerial(), Subject: pkix.Name{Organization: []string{"Holdfast"}},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	template.Subject.CommonName = fmt.Sprintf("Holdfast authority %08x", new(big.Int).Rsh(template.SerialNumber, 95))
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make the authority's certificate: %w", err)
	}
	return writePair(dir, AuthorityName, der, key)
}

// Request is what a certificate is to say.
type Request struct {
	Identity
	Addresses []string // host names and IP addresses of the holder; a switch that has one may serve its database
	Days      int      // until it expires
	// Switches are the datapath ids for which a switch or an agent may speak; none: it does not say.
	Switches []openflow.DatapathID
}

func (r Request) validate() error {
	switch n := len(r.Switches); {
	case n > 0 && r.Role != Switch && r.Role != Agent:
		return fmt.Errorf("a certificate of %s speaks for no switch: only those of switches and agents have datapath "+
			"ids", r.Identity)
	case n > MaxDatapaths:
		return fmt.Errorf("%d datapath ids: a certificate has at most %d; give each switch its own", n, MaxDatapaths)
	}
	return r.Identity.Validate()
}

// validDNS is what a certificate takes for a host name.
var validDNS = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// Issue makes a key and a certificate, signed by the authority in dir, and adds them to the
// folder. It overwrites nothing.
func Issue(dir string, r Request, now time.Time) error {
	if err := r.validate(); err != nil {
		return err
	}
	template := &x509.Certificate{Subject: pkix.Name{Organization: []string{"Holdfast"},
		OrganizationalUnit: []string{string(r.Role)}, CommonName: r.Name}}
	template.URIs = append(template.URIs, r.uri())
	for _, id := range r.Switches {
		template.URIs = append(template.URIs, datapathURI(id))
	}
	for _, a := range r.Addresses {
		if ip := net.ParseIP(a); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if validDNS.MatchString(a) {
			template.DNSNames = append(template.DNSNames, a)
		} else {
			return fmt.Errorf("address %q: use an IP address or a host name, without a port", a)
		}
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := sign(dir, template, key.Public(), r.Days, now)
	if err != nil {
		return err
	}
	return writePair(dir, r.Name, der, key)
}

// Renew replaces the certificate of a name in dir by one for the same holder and key that
// expires later. The key need not be there. The file is replaced at once, so a reader of it finds
// either certificate whole.
func Renew(dir, name string, days int, now time.Time) error {
	if !validName.MatchString(name) || name == AuthorityName {
		return fmt.Errorf("%q is not the name of a certificate that was issued", name)
	}
	old, err := readCertificate(CertFile(dir, name))
	if err != nil {
		return err
	}
	if _, err := Of(old); err != nil {
		return fmt.Errorf("%s: %w", CertFile(dir, name), err)
	}
	template := &x509.Certificate{Subject: old.Subject, URIs: old.URIs, DNSNames: old.DNSNames,
		IPAddresses: old.IPAddresses}
	der, err := sign(dir, template, old.PublicKey, days, now)
	if err != nil {
		return err
	}
	next := CertFile(dir, name) + ".new"
	if err := os.WriteFile(next, encode("CERTIFICATE", der), 0o644); err != nil {
		return fmt.Errorf("write the renewed certificate: %w", err)
	}
	if err := os.Rename(next, CertFile(dir, name)); err != nil {
		return errors.Join(fmt.Errorf("put the renewed certificate in its place: %w", err), os.Remove(next))
	}
	return nil
}

// sign completes the template, of a holder, and signs it.
func sign(dir string, template *x509.Certificate, holder crypto.PublicKey, days int, now time.Time) ([]byte, error) {
	if days < 1 || days > MaxDays {
		return nil, fmt.Errorf("%d days: use 1 to %d", days, MaxDays)
	}
	authority, err := readCertificate(CertFile(dir, AuthorityName))
	if err != nil {
		return nil, fmt.Errorf("%w; make an authority with `holdfast pki init`", err)
	}
	key, err := readKey(KeyFile(dir, AuthorityName))
	if err != nil {
		return nil, err
	}
	id, err := Of(template)
	if err != nil {
		return nil, err
	}
	template.SerialNumber = newSerial()
	template.NotBefore, template.NotAfter = now.Add(-skew), now.Add(time.Duration(days)*day)
	if template.NotAfter.After(authority.NotAfter) {
		template.NotAfter = authority.NotAfter
	}
	if !now.Before(template.NotAfter) {
		return nil, fmt.Errorf("the authority expired at %s: make a new one in another folder",
			authority.NotAfter.Format(time.RFC3339))
	}
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	// The others only connect, but for a switch that lets controllers look into its database: it has an address.
	addressed := len(template.DNSNames)+len(template.IPAddresses) > 0
	if id.Role == Controller || id.Role == Agent || id.Role == Switch && addressed {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, holder, key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", id, err)
	}
	return der, nil
}

// newKey makes a key of the kind that Open vSwitch and everything else takes.
func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// newSerial is a random number of 127 bits, so that nobody has to count.
func newSerial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b) // it never fails
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}

// writePair writes two new files, or none.
func writePair(dir, name string, cert []byte, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	if err := create(KeyFile(dir, name), encode("PRIVATE KEY", der), 0o600); err != nil {
		return err
	}
	if err := create(CertFile(dir, name), encode("CERTIFICATE", cert), 0o644); err != nil {
		return errors.Join(err, os.Remove(KeyFile(dir, name)))
	}
	return nil
}

func create(file string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and is not overwritten", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(file))
	}
	return nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func readBlock(file, kind string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: it does not begin with a PEM block %s", file, kind)
	}
	return block.Bytes, nil
}

func readCertificate(file string) (*x509.Certificate, error) {
	der, err := readBlock(file, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cert, nil
}

func readKey(file string) (crypto.Signer, error) {
	der, err := readBlock(file, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a %T cannot sign", file, key)
	}
	return signer, nil
}
