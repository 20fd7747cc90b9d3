package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.com/hold"

// eventRecorder is what the recorders of events.k8s.io have in common: each minor of
// controller-runtime names its type differently.
type eventRecorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// reconciler keeps one ConfigMap for each Gadget, and says so in its status and in Events.
type reconciler struct {
	client.Client
	events  eventRecorder
	classic record.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	gadget := &Gadget{}
	if err := r.Get(ctx, request.NamespacedName, gadget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !gadget.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finish(ctx, gadget)
	}
	if controllerutil.AddFinalizer(gadget, finalizer) {
		return ctrl.Result{}, r.Update(ctx, gadget)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: gadget.Namespace, Name: gadget.Name}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, owned, func() error {
		owned.Data = map[string]string{"text": gadget.Spec.Text}
		return controllerutil.SetControllerReference(gadget, owned, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if done != controllerutil.OperationResultNone {
		r.events.Eventf(gadget, owned, corev1.EventTypeNormal, "Written", "Write", "the ConfigMap was %s", done)
		r.classic.Eventf(gadget, corev1.EventTypeNormal, "WrittenToo", "the ConfigMap was %s", done)
	}
	before := gadget.DeepCopyObject().(*Gadget)
	gadget.Status.ObservedGeneration = gadget.Generation
	meta.SetStatusCondition(&gadget.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Written", ObservedGeneration: gadget.Generation,
	})
	return ctrl.Result{}, r.Status().Patch(ctx, gadget, client.MergeFrom(before))
}

// finish leaves a note of the deletion and lets the Gadget go.
func (r *reconciler) finish(ctx context.Context, gadget *Gadget) error {
	if !controllerutil.ContainsFinalizer(gadget, finalizer) {
		return nil
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: gadget.Namespace, Name: gadget.Name + "-finished"}}
	if err := r.Create(ctx, note); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	controllerutil.RemoveFinalizer(gadget, finalizer)
	return r.Update(ctx, gadget)
}
