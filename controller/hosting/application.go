package hosting

import (
	"errors"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Name is that of the hosted application: one for all programs of the host.
const Name = "ryu"

// Application is what the ledger knows instead of the programs that hosts execute.
type Application struct{ identity string }

var _ ledger.Hosted = Application{}

// NewApplication makes one; see ledger.Hosted.
func NewApplication(identity string) Application { return Application{identity} }

// Name implements ledger.Application.
func (Application) Name() string { return Name }

// Identity implements ledger.Hosted.
func (a Application) Identity() string { return a.identity }

// Handle implements ledger.Application. The ledger does not call it.
func (Application) Handle(*ledger.Tx, *ledger.Input) error {
	return errors.New("hosted applications are executed by a host")
}
