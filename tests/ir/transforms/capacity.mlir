// RUN: vk-opt '--apply-plan{tiles="i=1" chunks="j=64" homes="e=shared" capacities="N=100" distinct=true}' --verify-mapped %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=1" chunks="j=64" homes="e=memory" capacities="N=100" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix=SWAP
// RUN: vk-opt '--apply-plan{tiles="i=1" chunks="j=112" capacities="N=100" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix=HELD
// Of a size that changes, facts give a capacity: a home on chip has that many elements, in whole chunks, swap space as many
// as the call needs, and an axis of one chunk is held. How far the axis goes, the code reads from the size.

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

// CHECK:      %N = vk.size N
// CHECK:      arith.floordivsi %N, %{{.*}}
// CHECK:      %e = vk.scratch "e" : !vk.scratch<[1, 128], f32>

// SWAP:       %[[CHUNKS:[0-9]+]] = arith.ceildivsi %N, %{{.*}} : i64
// SWAP-NEXT:  %[[LENGTH:[0-9]+]] = arith.muli %[[CHUNKS]], %{{.*}} : i64
// SWAP:       %e = vk.buffer "e" [%[[LENGTH]]] : !vk.buffer<[1, ?], f32>

// HELD-NOT:   scf.for
// HELD:       vk.load %x[%p_i + i, j] within (j < %N) : {{.*}} -> tensor<1x112xf32, #vk.axes<i, j>>
// HELD:       vk.below j < %N : tensor<112xi1, #vk.axes<j>>
// HELD-NOT:   scf.for
