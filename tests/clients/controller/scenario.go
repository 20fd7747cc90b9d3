package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const namespace = "default"

// scenario has what the steps need: the cached client, and a typed one that asks the server.
type scenario struct {
	cached client.Client
	typed  kubernetes.Interface
}

func runScenario(ctx context.Context, mgr manager.Manager) error {
	typed, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return err
	}
	s := &scenario{mgr.GetClient(), typed}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"leader", s.holdsTheLease},
		{"status", s.followsAGadget},
		{"owned", s.replacesWhatIsDeleted},
		{"events", s.findsItsEvents},
		{"deletion", s.finishesADeletion},
		{"typed", s.writesTypedObjects},
		{"deletes", s.deletesByPrecondition},
		{"reviews", s.asksForRights},
		{"apply", s.appliesFields},
	}
	for _, step := range steps {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("done:", step.name)
	}
	return nil
}

// until waits for the condition, and says what was missing.
func until(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, holds)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("waited in vain until %s", what)
	}
	return err
}

func (s *scenario) holdsTheLease(ctx context.Context) error {
	lease, err := s.typed.CoordinationV1().Leases(namespace).Get(ctx, "gadgets", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return fmt.Errorf("the lease has no holder: %v", lease.Spec)
	}
	return nil
}

func (s *scenario) isReady(ctx context.Context, name string) (bool, error) {
	gadget := &Gadget{}
	if err := s.cached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, gadget); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	ready := meta.IsStatusConditionTrue(gadget.Status.Conditions, "Ready")
	return ready && gadget.Status.ObservedGeneration == gadget.Generation, nil
}

func (s *scenario) hasText(ctx context.Context, name, text string) (bool, error) {
	owned, err := s.typed.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return owned.Data["text"] == text && metav1.GetControllerOf(owned) != nil, nil
}

func (s *scenario) followsAGadget(ctx context.Context) error {
	gadget := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first"}, Spec: GadgetSpec{Text: "one"}}
	if err := s.cached.Create(ctx, gadget); err != nil {
		return err
	}
	err := until(ctx, "the gadget is ready", func(ctx context.Context) (bool, error) {
		return s.isReady(ctx, "first")
	})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"text":"two"}}`))
	if err := s.cached.Patch(ctx, gadget, patch); err != nil {
		return err
	}
	return until(ctx, "the ConfigMap follows", func(ctx context.Context) (bool, error) {
		return s.hasText(ctx, "first", "two")
	})
}

func (s *scenario) replacesWhatIsDeleted(ctx context.Context) error {
	owned, err := s.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "first", metav1.GetOptions{})
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(owned.UID))}
	if err := s.typed.CoreV1().ConfigMaps(namespace).Delete(ctx, "first", options); err != nil {
		return err
	}
	return until(ctx, "the ConfigMap is there again", func(ctx context.Context) (bool, error) {
		again, err := s.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "first", metav1.GetOptions{})
		return err == nil && again.UID != owned.UID, client.IgnoreNotFound(err)
	})
}

func (s *scenario) findsItsEvents(ctx context.Context) error {
	return until(ctx, "both recorders have written Events", func(ctx context.Context) (bool, error) {
		selected := metav1.ListOptions{FieldSelector: "involvedObject.kind=Gadget,involvedObject.name=first"}
		core, err := s.typed.CoreV1().Events(namespace).List(ctx, selected)
		if err != nil {
			return false, err
		}
		reasons := map[string]bool{}
		for _, event := range core.Items {
			reasons[event.Reason] = true
		}
		selected.FieldSelector = "regarding.kind=Gadget,reason=Written"
		renamed, err := s.typed.EventsV1().Events(namespace).List(ctx, selected)
		if err != nil || len(renamed.Items) == 0 {
			return false, err
		}
		one := renamed.Items[0]
		if one.ReportingController != "gadgets" || one.Note == "" || one.EventTime.IsZero() {
			return false, fmt.Errorf("an Event lacks its content: %v", one)
		}
		return reasons["Written"] && reasons["WrittenToo"], nil
	})
}

func (s *scenario) finishesADeletion(ctx context.Context) error {
	gadget := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first"}}
	if err := s.cached.Delete(ctx, gadget); err != nil {
		return err
	}
	return until(ctx, "the gadget and its ConfigMap are gone", func(ctx context.Context) (bool, error) {
		maps := s.typed.CoreV1().ConfigMaps(namespace)
		_, err := maps.Get(ctx, "first", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return false, err
		}
		_, err = maps.Get(ctx, "first-finished", metav1.GetOptions{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

func (s *scenario) writesTypedObjects(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "typed"}}
	if _, err := s.typed.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "runner"}}
	if _, err := s.typed.CoreV1().ServiceAccounts("typed").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key", Labels: map[string]string{"use": "test"}},
		StringData: map[string]string{"a": "plain"},
	}
	made, err := s.typed.CoreV1().Secrets("typed").Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data["b"] = []byte{0xff, 0}
	made, err = s.typed.CoreV1().Secrets("typed").Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if string(made.Data["a"]) != "plain" || string(made.Data["b"]) != "\xff\x00" {
		return fmt.Errorf("the Secret has other data: %v", made.Data)
	}
	made.ResourceVersion = "1"
	if _, err := s.typed.CoreV1().Secrets("typed").Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update gave %v", err)
	}
	holder, seconds, now := "me", int32(10), metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock"}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
	kept, err := s.typed.CoordinationV1().Leases("typed").Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if !kept.Spec.RenewTime.Time.Equal(now.Truncate(time.Microsecond)) {
		return fmt.Errorf("the Lease has another time: %v, not %v", kept.Spec.RenewTime, now)
	}
	return nil
}

func (s *scenario) deletesByPrecondition(ctx context.Context) error {
	secrets := s.typed.CoreV1().Secrets("typed")
	wrong := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	if err := secrets.Delete(ctx, "key", wrong); !apierrors.IsConflict(err) {
		return fmt.Errorf("a delete of another uid gave %v", err)
	}
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := secrets.Delete(ctx, "key", dry); err != nil {
		return err
	}
	chosen := metav1.ListOptions{LabelSelector: "use=test"}
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, chosen); err != nil {
		return err
	}
	if _, err := secrets.Get(ctx, "key", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the deleted Secret gave %v", err)
	}
	foreground := metav1.DeletePropagationForeground
	options := metav1.DeleteOptions{PropagationPolicy: &foreground}
	if err := s.typed.CoreV1().Namespaces().Delete(ctx, "typed", options); err != nil {
		return err
	}
	return until(ctx, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := s.typed.CoreV1().Namespaces().Get(ctx, "typed", metav1.GetOptions{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func (s *scenario) asksForRights(ctx context.Context) error {
	me, err := s.typed.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username == "" {
		return fmt.Errorf("who am I: %v, %w", me, err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}
	answer, err := s.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || !answer.Status.Allowed {
		return fmt.Errorf("may I read secrets: %v, %w", answer, err)
	}
	return nil
}

func (s *scenario) appliesFields(ctx context.Context) error {
	first := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1", "b": "1"})
	if err := s.cached.Apply(ctx, first, client.FieldOwner("one")); err != nil {
		return err
	}
	other := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "2"})
	if err := s.cached.Apply(ctx, other, client.FieldOwner("two")); !apierrors.IsConflict(err) {
		return fmt.Errorf("a second owner of a field gave %v", err)
	}
	other = applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "2"})
	if err := s.cached.Apply(ctx, other, client.FieldOwner("two"), client.ForceOwnership); err != nil {
		return err
	}
	less := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{})
	if err := s.cached.Apply(ctx, less, client.FieldOwner("one")); err != nil {
		return err
	}
	kept, err := s.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(kept.Data) != 1 || kept.Data["a"] != "2" {
		return fmt.Errorf("the applied ConfigMap has %v", kept.Data)
	}
	return nil
}
