"""Karmada's labels, annotations, finalizers, conditions and names, as of its 1.11 and later."""

from __future__ import annotations

LABEL_MANAGED = "karmada.io/managed"
LABEL_POLICY_ID = "propagationpolicy.karmada.io/permanent-id"
LABEL_BINDING_ID = "resourcebinding.karmada.io/permanent-id"
LABEL_WORK_ID = "work.karmada.io/permanent-id"
LABEL_SKIP_NAMESPACE = "namespace.karmada.io/skip-auto-propagation"

ANNOTATION_POLICY_NAMESPACE = "propagationpolicy.karmada.io/namespace"
ANNOTATION_POLICY_NAME = "propagationpolicy.karmada.io/name"
ANNOTATION_APPLIED_PLACEMENT = "policy.karmada.io/applied-placement"
ANNOTATION_BINDING_NAMESPACE = "resourcebinding.karmada.io/namespace"
ANNOTATION_BINDING_NAME = "resourcebinding.karmada.io/name"
ANNOTATION_WORK_NAMESPACE = "work.karmada.io/namespace"
ANNOTATION_WORK_NAME = "work.karmada.io/name"
ANNOTATION_TEMPLATE_UID = "resourcetemplate.karmada.io/uid"
ANNOTATION_TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"
ANNOTATION_MANAGED_LABELS = "resourcetemplate.karmada.io/managed-labels"
ANNOTATION_MANAGED_ANNOTATIONS = "resourcetemplate.karmada.io/managed-annotations"

FINALIZER_POLICY = "karmada.io/propagation-policy-controller"
FINALIZER_BINDING = "karmada.io/binding-controller"
FINALIZER_EXECUTION = "karmada.io/execution-controller"
FINALIZER_CLUSTER = "karmada.io/cluster-controller"

CONDITION_READY = "Ready"
"""Of a Cluster."""
CONDITION_SCHEDULED = "Scheduled"
CONDITION_FULLY_APPLIED = "FullyApplied"
"""Scheduled and FullyApplied are a ResourceBinding's."""
CONDITION_APPLIED = "Applied"
"""Of a Work."""

REASON_SUCCESS = "Success"
REASON_NO_CLUSTER_FIT = "NoClusterFit"
REASON_FULLY_APPLIED_SUCCESS = "FullyAppliedSuccess"
REASON_FULLY_APPLIED_FAILED = "FullyAppliedFailed"
REASON_APPLIED_SUCCESSFUL = "AppliedSuccessful"
REASON_APPLIED_FAILED = "AppliedFailed"
REASON_CLUSTER_READY = "ClusterReady"
REASON_CLUSTER_NOT_READY = "ClusterNotReady"
REASON_CLUSTER_NOT_REACHABLE = "ClusterNotReachable"

TAINT_NOT_READY = "cluster.karmada.io/not-ready"
TAINT_UNREACHABLE = "cluster.karmada.io/unreachable"

EXECUTION_NAMESPACE_PREFIX = "karmada-es-"


def execution_namespace(cluster: str) -> str:
    """Where the Works for a cluster lie."""
    return EXECUTION_NAMESPACE_PREFIX + cluster


def binding_name(object_name: str, kind: str) -> str:
    """The ResourceBinding of a template, in the template's namespace."""
    return f"{object_name}-{kind.lower()}".replace(":", ".")
