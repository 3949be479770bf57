#!/bin/sh
# Installs Calico from its published manifest, and the right that the reporter needs to write node conditions.
#
#   sh apply-calico.sh [arguments for kubectl, such as --context=NAME]
#
# CALICO_VERSION chooses the version. CALICO_MANIFEST names the manifest itself, a file or a URL: where there is no way
# to the internet, or for one that was changed, as for the range of the pods' addresses.
set -eu

CALICO_VERSION=${CALICO_VERSION:-v3.31.5}
CALICO_MANIFEST=${CALICO_MANIFEST:-https://raw.githubusercontent.com/projectcalico/calico/$CALICO_VERSION/manifests/calico.yaml}

here=$(dirname -- "$0")

echo "Installing Calico from $CALICO_MANIFEST"
# On the server's side: the CustomResourceDefinitions are too large for kubectl's own annotation.
kubectl apply "$@" --server-side -f "$CALICO_MANIFEST"

echo "Granting the reporter its right"
kubectl apply "$@" -f "$here/calico-rbac-node-status-patch-role.yaml"
