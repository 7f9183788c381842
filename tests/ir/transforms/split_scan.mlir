// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" splits="j=3" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s
// A scan along an axis that programs share: a first launch sums each part but the last, and the second goes through each
// part from the sum of those before.

vk.kernel @running_sums(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sums = vk.scan sum %row along j : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %sums in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %total_sums = vk.buffer "total_sums" [%[[TILES:[0-9]+]]] : !vk.buffer<[?, 3, 4], f32>
// CHECK:      vk.launch "out_totals" over (%[[P:[a-z0-9_]+]] = %[[TILES]], %[[SHARE:[a-z0-9_]+]] = %{{[0-9]+}}) {
// CHECK:        scf.for %j0
// CHECK-NEXT:     vk.load %x
// CHECK-NEXT:     arith.addf
// CHECK-NEXT:     scf.yield
// CHECK:        %[[SUM:[0-9]+]] = vk.sum
// CHECK-NEXT:   vk.store %[[SUM]] in %total_sums[%[[P]], %[[SHARE]], i]
// CHECK-NEXT: }
// CHECK:      vk.launch "out" over (%[[P:[a-z0-9_]+]] = %[[TILES]], %[[SHARE:[a-z0-9_]+]] = %{{[0-9]+}}) {
// CHECK:        %[[PARTS:[0-9]+]] = arith.minsi %[[SHARE]]
// CHECK:        %[[BEFORE:[0-9]+]] = scf.for %[[PART:[0-9]+]] = %{{[0-9]+}} to %[[PARTS]]
// CHECK-NEXT:     vk.load %total_sums[%[[P]], %[[PART]], i]
// CHECK-NEXT:     arith.addf
// CHECK:        scf.for %j0{{.*}} iter_args(%{{[0-9]+}} = %[[BEFORE]])
// CHECK:          vk.scan sum
