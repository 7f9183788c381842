// RUN: vk-opt '--apply-plan{tiles="i=16" lanes=i private_copies=3 multiples="N=16" distinct=true}' --verify-mapped %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=16" lanes=i private_copies=1 multiples="N=16" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix ONE
// Each of three programs fills its copy with the neutral element, -0, and updates it alone, for its share of the
// programs along i. A last launch combines the copies into the tensor. With one copy the tensor itself is updated.

vk.kernel @bincount(%index: !vk.tensor<[N], i64>, %weight: !vk.tensor<[N], f32>, %count: !vk.tensor<[B], f32>) {
  %N = vk.size N
  vk.tile i < %N
  %at = vk.load %index[i] : !vk.tensor<[N], i64> -> tensor<?xi64, #vk.axes<i>>
  %w = vk.load %weight[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
  vk.scatter %w atomic add in %count[%at] guarding [0] : !vk.tensor<[B], f32>, (tensor<?xi64, #vk.axes<i>>) <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %[[THREE:[0-9]+]] = arith.constant 3 : i64
// CHECK:      %[[LENGTH:[0-9]+]] = arith.addi %B, %{{[0-9]+}}
// CHECK-NEXT: %copies_count = vk.buffer "copies_count" [%[[LENGTH]]] : !vk.buffer<[3, ?], f32>
// CHECK:      %[[PROGRAMS:[0-9]+]] = arith.ceildivsi %N
// CHECK-NEXT: %[[SHARE:[0-9]+]] = arith.ceildivsi %[[PROGRAMS]], %[[THREE]]
// CHECK:      vk.launch "bincount" over (%p_copy = %[[THREE]]) {
// CHECK-NEXT:   %[[NEUTRAL:[0-9]+]] = arith.constant dense<-0.000000e+00> : tensor<128xf32
// CHECK-NEXT:   scf.for
// CHECK:          vk.store %[[NEUTRAL]] in %copies_count[%p_copy
// CHECK:        vk.barrier
// CHECK-NEXT:   %[[START:[0-9]+]] = arith.muli %p_copy, %[[SHARE]]
// CHECK-NEXT:   %[[END:[0-9]+]] = arith.addi %[[START]], %[[SHARE]]
// CHECK-NEXT:   %[[STOP:[0-9]+]] = arith.minsi %[[END]], %[[PROGRAMS]]
// CHECK-NEXT:   scf.for %p_i = %[[START]] to %[[STOP]]
// CHECK:          vk.scatter %w atomic add exclusive in %copies_count[%p_copy, %at] guarding [1]
// CHECK:      vk.launch "combine count" over
// CHECK:        vk.load %count[
// CHECK:        scf.for %[[COPY:[0-9]+]] = {{.*}} to %[[THREE]]
// CHECK-NEXT:     vk.load %copies_count[%[[COPY]]
// CHECK-NEXT:     arith.addf
// CHECK:        vk.store %{{[0-9]+}} in %count[

// ONE-NOT:  vk.buffer
// ONE:      %[[PROGRAMS:[0-9]+]] = arith.ceildivsi %N
// ONE:      vk.launch "bincount" over () {
// ONE-NEXT:   scf.for %p_i = %{{[0-9]+}} to %[[PROGRAMS]]
// ONE:          vk.scatter %w atomic add exclusive in %count[%at] guarding [0] : !vk.tensor<[B], f32>
// ONE-NOT:  vk.launch
