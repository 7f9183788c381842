// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=128" sizes="N=100" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s
// A chunk that is not smaller than its axis holds it at once: no loop, one load, masks for the positions in excess.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %e, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      vk.launch "softmax" over (%p_i = %{{.*}}) {
// CHECK-NOT:  scf.for
// CHECK:        vk.load %x[%i0 + i, j] within (j < %{{.*}}) : {{.*}} -> tensor<4x128xf32, #vk.axes<i, j>>
// CHECK-NOT:    vk.load
// CHECK:        vk.below j < %{{.*}} : tensor<128xi1, #vk.axes<j>>
// CHECK:        %max = vk.max
// CHECK:        %sum = vk.sum
// CHECK:        vk.store %q in %out[%i0 + i, j] within (j < %{{.*}})
