"""Every call of every process, as the scenarios have recorded them.

Written by ``python -m tests.rights``; then ``make generate`` writes the roles from it. A section
begins with a process and a type of plane; its lines are group and resource, and the verbs.
"""

RECORDED = """
compute-cell cell
compute.datumapis.com/instances get,list,watch,create,patch,delete
compute.datumapis.com/instances/status patch
compute.datumapis.com/workloaddeployments get,list,watch,patch
compute.datumapis.com/workloaddeployments/status patch
core/events get,create,patch
core/namespaces list,watch
networking.datumapis.com/locations list,watch
networking.datumapis.com/networkbindings get,list,watch,create,delete
networking.datumapis.com/networkcontexts get,list,watch
networking.datumapis.com/subnetclaims get,list,watch,create
networking.datumapis.com/subnets list,watch

compute-cell hub
compute.datumapis.com/instances get,list,watch,create,patch,delete
compute.datumapis.com/instances/status patch
compute.datumapis.com/workloaddeployments get
core/namespaces get,list,watch

compute-cell project
quota.miloapis.com/allowancebuckets list,watch
quota.miloapis.com/resourceclaims get,list,watch,create,delete

compute-election host
coordination.k8s.io/leases get,create,patch

compute-management hub
cluster.karmada.io/clusters list,watch
compute.datumapis.com/instances get,list,watch
compute.datumapis.com/workloaddeployments get,list,watch,create,patch,delete
config.karmada.io/resourceinterpretercustomizations list,watch
core/namespaces get,list,watch,create,patch
policy.karmada.io/propagationpolicies get,list,watch,create,patch,delete
work.karmada.io/resourcebindings get,list,watch
work.karmada.io/works list,watch

compute-management project
compute.datumapis.com/instances get,list,watch,create,patch,delete
compute.datumapis.com/instances/status patch
compute.datumapis.com/workloaddeployments get,list,watch,create,patch,delete
compute.datumapis.com/workloaddeployments/status patch
compute.datumapis.com/workloads get,list,watch,patch
compute.datumapis.com/workloads/status patch
core/events get,create,patch
core/namespaces get,list,watch
networking.datumapis.com/locationbindings list,watch
networking.datumapis.com/networks list,watch

compute-management root
resourcemanager.miloapis.com/projects list,watch

compute-single single
compute.datumapis.com/instances get,list,watch,create,patch,delete
compute.datumapis.com/instances/status patch
compute.datumapis.com/workloaddeployments get,list,watch,create,patch,delete
compute.datumapis.com/workloaddeployments/status patch
compute.datumapis.com/workloads get,list,watch,patch
compute.datumapis.com/workloads/status patch
core/events get,create,patch
core/namespaces list,watch
networking.datumapis.com/locationbindings list,watch
networking.datumapis.com/locations list,watch
networking.datumapis.com/networkbindings get,list,watch,create,delete
networking.datumapis.com/networkcontexts get,list,watch
networking.datumapis.com/networks list,watch
networking.datumapis.com/subnetclaims get,list,watch,create
networking.datumapis.com/subnets list,watch

compute-webhooks project
authorization.k8s.io/subjectaccessreviews create
networking.datumapis.com/locationbindings list
networking.datumapis.com/networks get

compute-webhooks single
authorization.k8s.io/subjectaccessreviews create
networking.datumapis.com/locationbindings list
networking.datumapis.com/networks get

provider cell
compute.datumapis.com/instances get,list,watch,patch
compute.datumapis.com/instances/status patch
networking.datumapis.com/networkbindings list,watch
networking.datumapis.com/subnetclaims list,watch
networking.datumapis.com/subnets list,watch

standin-entitlements project
services.miloapis.com/serviceentitlements get,list,watch
services.miloapis.com/serviceentitlements/status patch

standin-entitlements root
resourcemanager.miloapis.com/projects list,watch
services.miloapis.com/services list,watch

standin-network cell
compute.datumapis.com/workloaddeployments list,watch
core/namespaces list,watch
networking.datumapis.com/locations get,list,watch
networking.datumapis.com/locations/status patch
networking.datumapis.com/networkbindings get,list,watch
networking.datumapis.com/networkbindings/status patch
networking.datumapis.com/networkcontexts get,list,watch,create
networking.datumapis.com/networkcontexts/status patch
networking.datumapis.com/networks get,list,watch,create,patch,delete
networking.datumapis.com/networks/status patch
networking.datumapis.com/subnetclaims get,list,watch
networking.datumapis.com/subnetclaims/status patch
networking.datumapis.com/subnets get,list,watch,create
networking.datumapis.com/subnets/status patch

standin-network project
core/namespaces list,watch
networking.datumapis.com/locationbindings get,list,watch,create,patch
networking.datumapis.com/locationbindings/status patch
networking.datumapis.com/locations get,list,watch,create
networking.datumapis.com/networks get,list,watch
networking.datumapis.com/networks/status patch

standin-network root
resourcemanager.miloapis.com/projects list,watch

standin-projects project
*/* list,delete
core/namespaces get,create

standin-projects root
resourcemanager.miloapis.com/projects get,list,watch,patch
resourcemanager.miloapis.com/projects/status patch

standin-propagation cell
compute.datumapis.com/workloaddeployments get,list,watch,create,patch,delete
core/namespaces get,list,watch,create,patch,delete

standin-propagation hub
cluster.karmada.io/clusters get,list,watch,patch
cluster.karmada.io/clusters/status patch
compute.datumapis.com/workloaddeployments get,list,watch,patch
compute.datumapis.com/workloaddeployments/status patch
config.karmada.io/resourceinterpretercustomizations list,watch
core/namespaces get,list,watch,create,delete
policy.karmada.io/propagationpolicies list,watch,patch
work.karmada.io/resourcebindings get,list,watch,create,patch
work.karmada.io/resourcebindings/status patch
work.karmada.io/works get,list,watch,create,patch,delete
work.karmada.io/works/status patch

standin-quota project
quota.miloapis.com/allowancebuckets get,list,watch,create
quota.miloapis.com/allowancebuckets/status patch
quota.miloapis.com/resourceclaims get,list,watch,delete
quota.miloapis.com/resourceclaims/status patch
quota.miloapis.com/resourcegrants get,list,watch,create,patch,delete
quota.miloapis.com/resourcegrants/status patch

standin-quota root
quota.miloapis.com/grantcreationpolicies get,list,watch
quota.miloapis.com/grantcreationpolicies/status patch
quota.miloapis.com/resourceregistrations get,list,watch
quota.miloapis.com/resourceregistrations/status patch
resourcemanager.miloapis.com/projects list,watch
"""
