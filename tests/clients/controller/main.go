// A controller as people write them with controller-runtime, and a scenario that uses it.
//
// The scenario runs once this process is the leader and its caches are filled. Each step prints
// its name when it is done; the first that fails ends the process with code 1.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// counter counts the requests that show which ways of asking the libraries chose.
type counter struct {
	next  http.RoundTripper
	lock  sync.Mutex
	found map[string]int
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	c.lock.Lock()
	if request.URL.Query().Get("sendInitialEvents") == "true" {
		c.found["watch lists"]++
	}
	if request.Header.Get("Content-Type") == "application/vnd.kubernetes.protobuf" {
		c.found["protobuf bodies"]++
	}
	if request.Header.Get("Content-Type") == "application/apply-patch+yaml" {
		c.found["applies"]++
	}
	c.lock.Unlock()
	return c.next.RoundTrip(request)
}

func main() {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := run(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	counted := &counter{found: map[string]int{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	lease, wait := 15*time.Second, 10*time.Second
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "gadgets",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &wait,
	})
	if err != nil {
		return err
	}
	gadgets := &reconciler{
		Client:  mgr.GetClient(),
		events:  mgr.GetEventRecorder("gadgets"),
		classic: mgr.GetEventRecorderFor("gadgets-classic"),
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&Gadget{}).Owns(&corev1.ConfigMap{}).Complete(gadgets)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctrl.SetupSignalHandler(), 2*time.Minute)
	defer stop()
	var outcome error
	scenario := manager.RunnableFunc(func(ctx context.Context) error {
		defer stop()
		outcome = runScenario(ctx, mgr)
		return nil
	})
	if err := mgr.Add(scenario); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return err
	}
	for name, count := range counted.found {
		fmt.Printf("%s: %d\n", name, count)
	}
	return outcome
}
